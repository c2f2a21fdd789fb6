//! `varve drive show`: one drive of the pool.

use clap::Args;
use serde_json::json;
use varve_access_admin::v1::{Drive, DriveList};
use varve_client::{Client, Result, table};

use super::{errors, find, number, since, size, state, used};
use crate::cli::Format;

/// Show one drive of the pool
#[derive(Args, Debug)]
pub(crate) struct DriveShow {
    /// Its number, its path, or the beginning of its identity
    drive: String,

    #[command(flatten)]
    format: Format,
}

impl DriveShow {
    pub(crate) fn run(self, client: &Client) -> Result<String> {
        let list = client.get::<DriveList>("/v1/drives")?.value;
        let drive = find(&list.drives, &self.drive)?;
        if self.format.json {
            return Ok(format!("{:#}\n", json!(drive)));
        }
        Ok(describe(drive))
    }
}

fn describe(drive: &Drive) -> String {
    let mut facts = vec![("drive", number(drive)), ("path", drive.path.clone())];
    let told = [("identity", &drive.id), ("name", &drive.name), ("kind", &drive.kind)];
    facts.extend(told.into_iter().filter_map(|(what, it)| Some((what, it.clone()?))));
    facts.extend([
        ("state", state(drive)),
        ("since", since(drive)),
        ("size", size(drive)),
        ("used", used(drive)),
        ("errors", errors(drive)),
    ]);
    table::labelled(&facts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drive_goes_by_number_path_or_the_beginning_of_its_identity() {
        let drive = |number: u8, id: &str| Drive {
            path: format!("/srv/{number}"),
            number: Some(number),
            id: Some(id.to_owned()),
            ..Drive::default()
        };
        let drives = [drive(0, "abcd01"), drive(1, "abcd02"), drive(12, "1212ff")];
        let number = |name: &str| find(&drives, name).map(|drive| drive.number.unwrap());
        assert_eq!(number("1").unwrap(), 1, "no beginning of an identity");
        assert_eq!(number("/srv/12").unwrap(), 12);
        assert_eq!(number("ABCD02").unwrap(), 1);
        assert!(number("abcd").unwrap_err().to_string().contains("several drives"));
        for name in ["7", "abc", "/srv", ""] {
            assert!(number(name).unwrap_err().to_string().contains("has no drive"), "{name}");
        }
    }
}
