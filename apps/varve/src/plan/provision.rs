//! `varve plan provision`: how much is deployed for what is sold with a rate.

use clap::Args;
use serde::Serialize;
use varve_client::{Failure, Result};
use varve_tool_plan::provision::{self, Promise};
use varve_tool_plan::report::Document;
use varve_tool_plan::{ByteRate, Bytes, short};

use super::form::{OutputForm, refused};

/// Capacity to deploy where a rate is promised with each TB that is sold
#[derive(Args, Debug)]
pub(crate) struct Provision {
    /// Rate of reads that is promised with each TB
    #[arg(long, value_name = "RATE", requires = "reads_given")]
    reads_promised: Option<ByteRate>,

    /// Rate of reads that a TB gives
    #[arg(long, value_name = "RATE", requires = "reads_promised")]
    reads_given: Option<ByteRate>,

    /// How many times faster a cache makes reads
    #[arg(long, value_name = "RATIO", default_value_t = 1.0)]
    reads_speed_up: f64,

    /// Rate of writes that is promised with each TB
    #[arg(long, value_name = "RATE", requires = "writes_given")]
    writes_promised: Option<ByteRate>,

    /// Rate of writes that a TB gives
    #[arg(long, value_name = "RATE", requires = "writes_promised")]
    writes_given: Option<ByteRate>,

    /// How many times faster a cache makes writes
    #[arg(long, value_name = "RATIO", default_value_t = 1.0)]
    writes_speed_up: f64,

    /// Capacity that is sold
    #[arg(long, value_name = "SIZE")]
    sold: Option<Bytes>,

    #[command(flatten)]
    form: OutputForm,
}

#[derive(Serialize)]
struct ProvisionAnswer {
    factor: f64,
    bound_by: &'static str,
    deployed_bytes: Option<Bytes>,
}

impl Provision {
    pub(crate) fn run(self) -> Result<String> {
        let kinds = [
            ("reads", self.reads_promised.zip(self.reads_given), self.reads_speed_up),
            ("writes", self.writes_promised.zip(self.writes_given), self.writes_speed_up),
        ];
        let mut factors = Vec::new();
        for (kind, rates, speed_up) in kinds {
            let Some((required, given)) = rates else { continue };
            let promise = Promise { required, given, speed_up };
            factors.push((kind, provision::factor(&[promise]).map_err(refused)?));
        }
        let most = factors.into_iter().max_by(|one, other| one.1.total_cmp(&other.1));
        let (bound_by, factor) = most.ok_or_else(|| {
            Failure::misuse("no rate is promised")
                .hint("give --reads-promised and --reads-given, or those of writes")
        })?;
        // What is sold has to be there, however fast it is.
        let deployed_bytes = self.sold.map(|sold| sold * factor.max(1.0));
        let answer = ProvisionAnswer { factor, bound_by, deployed_bytes };
        let mut facts = vec![("by rate", short(factor)), ("bound by", bound_by.to_owned())];
        facts.extend(deployed_bytes.map(|bytes| ("to deploy", bytes.to_string())));
        self.form.print(&answer, &Document::new("TB to deploy for each one sold").facts(facts))
    }
}
