//! `varve bench cosbench`: a workload of COSBench on an S3 server.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use varve_bench::{
    DataArgs, S3Settings, SavedResult, System, objects_work, run_workload, write_folder,
};
use varve_client::table::{Align, columns};
use varve_client::{Failure, Result};
use varve_tool_bench::Preset;
use varve_tool_bench::cosbench::{TallyLine, Workload, csv};
use varve_tool_plan::report::{Document, ReportTable};

use crate::commands::bench::read_text;
use crate::output::print;

/// Run a workload of COSBench, as its XML says, on an S3 server
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
                  varve bench cosbench workload.xml --endpoint http://127.0.0.1:9000 --access-key KEY --secret-file secret\n  \
                  varve bench cosbench s3-config-sample.xml --cprefix bench- --save results/sample\n\n\
                  Stages run one after another until one fails; objects and buckets of the names in the workload are written and removed.\n\
                  Exit codes: 0 every work within its share of failures, 1 else, 2 misused.")]
pub(crate) struct Cosbench {
    /// The workload: a preset, or a file of COSBench's XML, - for standard input; `varve bench list` has the presets
    #[arg(value_name = "WORKLOAD")]
    workload: String,

    /// Server, instead of the workload's: http://HOST(:PORT)
    #[arg(long, value_name = "URL")]
    endpoint: Option<String>,

    /// Access key ID, instead of the workload's
    #[arg(long, value_name = "KEY", requires = "secret_file")]
    access_key: Option<String>,

    /// File with its secret, - for standard input
    #[arg(long, value_name = "FILE", requires = "access_key")]
    secret_file: Option<PathBuf>,

    /// What names of buckets begin with, instead of the workload's cprefix: COSBench's own, mycontainers_, is not a
    /// valid S3 bucket name
    #[arg(long, value_name = "PREFIX")]
    cprefix: Option<String>,

    #[command(flatten)]
    data: DataArgs,

    /// Save the result to a new folder: COSBench's CSV, a page
    #[arg(long, value_name = "DIR")]
    save: Option<PathBuf>,

    /// Print COSBench's CSV: times are ms, throughput is operations a second, bandwidth bytes a second
    #[arg(long)]
    csv: bool,
}

impl Cosbench {
    pub(crate) fn run(self) -> Result<String> {
        self.save.as_deref().map_or(Ok(()), SavedResult::check)?;
        let xml = match Preset::named(&self.workload) {
            Some(preset) => objects_work(preset)?,
            None => read_text(Path::new(&self.workload))?,
        };
        let workload = Workload::read(&xml).map_err(|error| Failure::misuse(error.to_string()));
        let mut workload = workload?;
        if let Some(prefix) = &self.cprefix {
            workload.rename_containers(prefix);
        }
        workload.notes.extend(workload.names_without_buckets());
        for note in &workload.notes {
            // Nobody is left to tell when stderr is closed.
            let _ = writeln!(io::stderr(), "warning: {note}");
        }
        let secret_file = self.secret_file.as_deref();
        let settings = S3Settings::from_arguments(self.endpoint, self.access_key, secret_file)?;
        let data = self.data.spec()?;
        let system = System::now();
        let lines = run_workload(&workload, &settings, &data)?;
        if let Some(dir) = &self.save {
            let page = page(&workload, &lines, &system);
            write_folder(dir, &[("report.csv", noted_csv(&workload, &lines))], &page)?;
        }
        print(&if self.csv { noted_csv(&workload, &lines) } else { table(&lines) })?;
        match lines.iter().find_map(|line| Some((line, line.failed.as_ref()?))) {
            None => Ok(String::new()),
            Some((line, why)) => {
                Err(Failure::new(format!("{} of {} failed: {why}", line.name, line.stage)))
            }
        }
    }
}

/// Titles of columns, of words and of amounts.
const WORDS: [&str; 3] = ["STAGE", "WORK", "OPERATION"];
const AMOUNTS: [&str; 8] = ["COUNT", "FAILED", "OPS/S", "MB/S", "MEAN ms", "p90", "p99", "MAX"];

/// COSBench's CSV, and behind it a line for each thing that the workload asks for and that was not done: its figures
/// are of something else.
fn noted_csv(workload: &Workload, lines: &[TallyLine]) -> String {
    let notes =
        workload.notes.iter().map(|note| format!("# not done: {}\n", note.replace('\n', " ")));
    csv(lines) + &notes.collect::<String>()
}

/// A page that needs nothing else.
fn page(workload: &Workload, lines: &[TallyLine], system: &System) -> Document {
    let header = WORDS.into_iter().chain(AMOUNTS).collect();
    let failed = lines.iter().filter_map(|line| {
        line.failed.as_ref().map(|why| format!("{} of {}: {why}", line.name, line.stage))
    });
    Document::new(&workload.name)
        .notes("Not as the workload says", workload.notes.clone())
        .table("Operations", ReportTable { header, rows: lines.iter().map(row).collect() })
        .notes("Failed", failed.collect())
        .headed_facts("How it was measured", system.facts())
}

/// For people.
fn table(lines: &[TallyLine]) -> String {
    let amounts = AMOUNTS.map(|title| (title, Align::Right));
    let words = WORDS.map(|title| (title, Align::Left));
    let header: Vec<_> = words.into_iter().chain(amounts).collect();
    let rows: Vec<_> = lines.iter().map(row).collect();
    columns(&header, &rows)
}

fn row(line: &TallyLine) -> Vec<String> {
    let TallyLine { stage, name, kind, seconds, tally, .. } = line;
    let per_second = |amount: f64| if *seconds > 0.0 { amount / seconds } else { 0.0 };
    let ms = |us: f64| format!("{:.2}", us / 1000.0);
    let at = |quantile| ms(tally.response_us.value_at_quantile(quantile) as f64);
    vec![
        stage.clone(),
        name.clone(),
        (*kind).to_owned(),
        tally.operations.to_string(),
        tally.failures.to_string(),
        format!("{:.0}", per_second(tally.operations as f64)),
        format!("{:.1}", per_second(tally.bytes as f64 / 1e6)),
        ms(tally.response_us.mean()),
        at(0.9),
        at(0.99),
        at(1.0),
    ]
}
