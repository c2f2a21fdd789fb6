//! `varve drive list`: all drives of the pool, with their states.

use clap::Args;
use varve_access_admin::v1::{Drive, DriveList};
use varve_client::table::{self, Align};
use varve_client::{Client, Result};

use super::{condition, errors, number, since, size, state, used};
use crate::cells;
use crate::cli::Format;

/// List the drives of the pool with their states
#[derive(Args, Debug)]
pub(crate) struct DriveListCommand {
    #[command(flatten)]
    format: Format,
}

impl DriveListCommand {
    pub(crate) fn run(self, client: &Client) -> Result<String> {
        let answer = client.get::<DriveList>("/v1/drives")?;
        Ok(answer.print(self.format.json, |list| describe(&list)))
    }
}

fn describe(list: &DriveList) -> String {
    let header = [
        ("DRIVE", Align::Right),
        ("STATE", Align::Left),
        ("SINCE", Align::Left),
        ("CLASS", Align::Left),
        ("SIZE", Align::Right),
        ("USED", Align::Right),
        ("ERRORS", Align::Left),
        ("CONDITION", Align::Left),
        ("PATH", Align::Left),
    ];
    let row = |drive: &Drive| {
        vec![
            number(drive),
            state(drive),
            since(drive),
            drive.kind.clone().unwrap_or_else(|| "-".to_owned()),
            size(drive),
            used(drive),
            errors(drive),
            condition(drive),
            drive.path.clone(),
        ]
    };
    let rows: Vec<Vec<String>> = list.drives.iter().map(row).collect();
    table::columns(&header, &rows) + &cells::without(&list.missing_cells)
}
