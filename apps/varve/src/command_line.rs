//! The command line: every subcommand is listed here and lives in a file of its own under `commands/`.

use clap::{Parser, Subcommand};
use varve_client::Result;

use crate::cli::Global;
use crate::commands::{
    bench, bucket, check, completions, df, drive, dump, health, man, node, plan, pool, report,
    salvage, serve, status, user, volume, wait,
};

/// The version, with the commit where the build knows it.
const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), env!("VARVE_COMMIT"));

/// Flash-native log-structured storage: thin-provisioned volumes over NBD, buckets over S3
#[derive(Parser, Debug)]
#[command(name = "varve", version = VERSION, max_term_width = 100, arg_required_else_help = true)]
#[command(after_help = "Exit codes: 0 done, 1 failed, 2 misused.")]
pub(crate) struct Cli {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    Serve(serve::Serve),
    #[command(subcommand)]
    Volume(volume::VolumeCommand),
    #[command(subcommand)]
    Bucket(bucket::BucketCommand),
    #[command(subcommand)]
    User(user::UserCommand),
    #[command(subcommand)]
    Node(node::NodeCommand),
    #[command(subcommand)]
    Pool(pool::PoolCommand),
    #[command(subcommand)]
    Drive(drive::DriveCommand),
    Health(health::HealthCommand),
    Df(df::Df),
    Status(status::Status),
    Wait(wait::Wait),
    Check(check::CheckCommand),
    Dump(dump::DumpCommand),
    Salvage(salvage::SalvageCommand),
    Plan(Box<plan::PlanCommand>),
    #[command(subcommand)]
    Bench(bench::Bench),
    #[command(subcommand)]
    Report(report::ReportCommand),
    Completions(completions::Completions),
    Man(man::Man),
}

impl Cli {
    /// Carries the command out; returns what it prints.
    pub(crate) fn run(self) -> Result<String> {
        let global = self.global;
        match self.command {
            Command::Serve(command) => command.run(&global),
            Command::Volume(command) => command.run(&global.client()),
            Command::Bucket(command) => command.run(&global.client()),
            Command::User(command) => command.run(&global.client()),
            Command::Node(command) => command.run(&global),
            Command::Pool(command) => command.run(&global),
            Command::Drive(command) => command.run(&global.client()),
            Command::Health(command) => command.run(&global.client()),
            Command::Df(command) => command.run(&global.client()),
            Command::Status(command) => command.run(&global.client()),
            Command::Wait(command) => command.run(&global.client()),
            Command::Check(command) => command.run(&global),
            Command::Dump(command) => command.run(&global),
            Command::Salvage(command) => command.run(&global),
            Command::Plan(command) => command.run(),
            Command::Bench(command) => command.run(&global),
            Command::Report(command) => command.run(),
            Command::Completions(command) => command.run(),
            Command::Man(command) => command.run(),
        }
    }
}
