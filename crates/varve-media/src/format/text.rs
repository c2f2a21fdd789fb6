//! A superblock as text, for `varve dump` and `varve check`: one fact a line, fields in stored order.

use std::fmt::{Display, Formatter, Result};

use varve_types::PoolId;

use super::{Shape, Superblock};

impl Display for Superblock {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let Self { compat, ro_compat, incompat, .. } = self;
        let flags = format!("compat {compat:#x} ro_compat {ro_compat:#x} incompat {incompat:#x}");
        let shape = match self.shape {
            Shape::OneDisk => "one disk",
            Shape::Directory => "directory",
        };
        f.write_str("superblock")?;
        let mut field = |name: &str, value: &dyn Display| write!(f, "\n  {name:<18} {value}");
        field("features", &flags)?;
        field("revision", &self.revision)?;
        field("pool", &self.pool)?;
        field("created_unix_ms", &self.created_unix_ms)?;
        field("drive_index", &self.drive_index)?;
        field("drive_count", &self.drive_count)?;
        field("lanes_of_pool", &self.lanes_of_pool)?;
        field("lane_bytes", &self.lane_bytes)?;
        field("segment_bytes", &self.segment_bytes)?;
        field("segment_count", &self.segment_count)?;
        field("root_bytes_max", &self.root_bytes_max)?;
        field("shape", &shape)?;
        let Some(redundant) = &self.redundant else { return Ok(()) };
        field("drive_id", &PoolId(redundant.drive_id))?;
        field("tables_offset", &redundant.tables_offset)?;
        field("roots_offset", &redundant.roots_offset)?;
        field("space_offset", &redundant.space_offset)?;
        field("units", &redundant.units)?;
        field("layout_pages", &redundant.layout_pages)
    }
}
