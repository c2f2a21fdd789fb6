//! Hardware, prices, clusters and measurements to plan with: built in, and added from users' TOML files.
//!
//! CATALOGUE-1. What an entry names exists.
//! CATALOGUE-2. An entry of a later file replaces one of the same name, and of measurements of the same nodes, share of
//!     reads and block those of the last file count.
//! CATALOGUE-3. Figures that no source gives are left out or listed as assumed, never filled in.

mod entries;
mod file;

use std::collections::BTreeMap;

pub use entries::{
    Class, Cluster, DriveKind, DriveModel, MeasuredCluster, NodeModel, Prices, Workload,
};

use crate::error::Result;

/// All that is known of hardware, and the shapes of workloads.
#[derive(Clone, Debug, Default)]
pub struct Catalogue {
    /// What running costs.
    pub prices: Prices,
    /// Drives by name.
    pub drives: BTreeMap<String, DriveModel>,
    /// Nodes by name.
    pub nodes: BTreeMap<String, NodeModel>,
    /// Clusters by name.
    pub clusters: BTreeMap<String, Cluster>,
    /// What was measured, in the order of the files.
    pub measured: Vec<MeasuredCluster>,
    /// Workloads by name.
    pub workloads: BTreeMap<String, Workload>,
}

impl Catalogue {
    /// The catalogue that comes with the program: hardware and workloads of the sources (CATALOGUE-3).
    #[must_use]
    pub fn built_in() -> Self {
        let mut catalogue = Self::default();
        for (name, text) in [
            ("hardware.toml", include_str!("../../catalogue/hardware.toml")),
            ("workloads.toml", include_str!("../../catalogue/workloads.toml")),
        ] {
            catalogue.add(name, text).expect("built in, and read by a test");
        }
        catalogue
    }

    /// Adds what stands in `text`, a TOML file that complaints call `name`. Nothing is added when something is wrong.
    ///
    /// # Errors
    /// [`crate::Error::Catalogue`] with line and column: no TOML, an unknown field, an amount without its unit, a name
    /// that is not there, a number out of range.
    pub fn add(&mut self, name: &str, text: &str) -> Result<()> {
        file::add(self, file::Source { name, text })
    }
}

#[cfg(test)]
mod tests;
