//! `varve health`: how safe what the pool holds is, as an exit code, with reasons and what to do.

use std::fmt::Write;

use clap::Args;
use varve_access_admin::v1::{Health, HealthReason, HealthState};
use varve_client::{Client, Failure, Result};

use crate::cells;
use crate::cli::Format;

/// Show how safe what the pool holds is, why, and what to do
#[derive(Args, Debug)]
#[command(
    after_help = "Exit codes: 0 ok, 1 attention: full redundancy is not proven, 2 at risk: the next lost drive may take data, 3 lost: something cannot be read, 4 unknown: nobody answers."
)]
pub(crate) struct HealthCommand {
    #[command(flatten)]
    format: Format,
}

impl HealthCommand {
    pub(crate) fn run(self, client: &Client) -> Result<String> {
        let answer = client.get::<Health>("/v1/health").map_err(|failure| unknown(&failure))?;
        let (state, worst) = (answer.value.state, answer.value.reasons.first().cloned());
        let text = answer.print(self.format.json, |health| describe(&health));
        if state == HealthState::Ok {
            return Ok(text);
        }
        crate::output::print(&text)?;
        Err(judged(state, worst))
    }
}

/// Who cannot be asked is not well.
fn unknown(failure: &Failure) -> Failure {
    let what = format!("health is unknown: {}", failure.what());
    let unknown = Failure::with_code(what, HealthState::Unknown.exit_code());
    match failure.advice() {
        Some(advice) => unknown.hint(advice),
        None => unknown,
    }
}

fn judged(state: HealthState, worst: Option<HealthReason>) -> Failure {
    let (what, advice) = match worst {
        Some(HealthReason { message, advice, .. }) => {
            (format!("{}: {message}", state.word()), Some(advice))
        }
        None => (state.word().to_owned(), None),
    };
    let failure = Failure::with_code(what, state.exit_code());
    match advice {
        Some(advice) => failure.hint(advice),
        None => failure,
    }
}

fn describe(health: &Health) -> String {
    let mut text = format!("{}\n", health.state.word());
    match health.survives {
        Some(0) => text.push_str("a lost drive would lose data\n"),
        Some(1) => text.push_str("survives the loss of any drive\n"),
        Some(drives) => {
            let _ = writeln!(text, "survives the loss of any {drives} drives");
        }
        None => {}
    }
    for HealthReason { state, message, advice } in &health.reasons {
        let _ = writeln!(text, "{}: {message}\n  {advice}", state.word());
    }
    text.push_str(&cells::without(&health.missing_cells));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_read_state_reasons_and_what_to_do() {
        let reason = HealthReason {
            state: HealthState::AtRisk,
            message: "3 zones do not survive the loss of another drive".to_owned(),
            advice: "replace the failed drive".to_owned(),
        };
        let text = describe(&Health::of(vec![reason], Some(0)));
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[..2], ["at risk", "a lost drive would lose data"]);
        assert_eq!(lines[2], "at risk: 3 zones do not survive the loss of another drive");
        assert_eq!(lines[3], "  replace the failed drive");
        assert_eq!(describe(&Health::of(Vec::new(), None)), "ok\n");
    }
}
