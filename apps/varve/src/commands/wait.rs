//! `varve wait`: returns once the daemon serves.

use std::time::{Duration, Instant};

use clap::Args;
use varve_client::{Client, Failure, Result};

/// Pause between two attempts.
const PAUSE: Duration = Duration::from_millis(100);

/// What each attempt may take, also the last one.
const ATTEMPT_MIN: Duration = Duration::from_secs(1);

/// Wait until the daemon serves volumes
#[derive(Args, Debug)]
pub(crate) struct Wait {
    /// Give up after this many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    timeout: u64,
}

impl Wait {
    pub(crate) fn run(self, client: &Client) -> Result<String> {
        let begun = Instant::now();
        let timeout = Duration::from_secs(self.timeout);
        loop {
            let left = timeout.saturating_sub(begun.elapsed());
            let client = client.clone().with_patience(left.max(ATTEMPT_MIN));
            let failure = match client.text("/health/ready") {
                Ok(_) => return Ok(String::new()),
                Err(failure) => failure,
            };
            if failure.exit_code() != 1 {
                return Err(failure);
            }
            if begun.elapsed() + PAUSE > timeout {
                let seconds = self.timeout;
                let what = format!("not ready after {seconds} s: {}", failure.what());
                let given_up = Failure::new(what);
                return Err(match failure.advice() {
                    Some(advice) => given_up.hint(advice),
                    None => given_up,
                });
            }
            std::thread::sleep(PAUSE);
        }
    }
}
