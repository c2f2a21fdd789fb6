//! What `smartctl --json` says of a drive, of NVMe, ATA and SCSI. Pure.
//!
//! Fields are those of its documented output since version 7.0. Attributes of ATA have the names of smartmontools'
//! database, by which their units are told apart: numbers alone mean something else with each vendor.

use serde_json::Value;

/// What a drive says of itself; nothing of what it does not tell.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct SmartReport {
    pub(super) model: Option<String>,
    pub(super) serial: Option<String>,
    pub(super) firmware: Option<String>,
    /// Identity of the vendor of an NVMe drive on PCI.
    pub(super) vendor: Option<u64>,
    /// What the drive itself says to the question whether it is well.
    pub(super) has_passed: Option<bool>,
    /// Bits of NVMe's critical warning.
    pub(super) critical_bits: u64,
    /// Attributes that are below their thresholds now.
    pub(super) failing_attributes: Vec<String>,
    pub(super) temperature_celsius: Option<i64>,
    /// From which temperature on it is too hot, where that is told.
    pub(super) temperature_limit_celsius: Option<i64>,
    pub(super) wear_percent: Option<u64>,
    pub(super) spare_percent: Option<u64>,
    pub(super) spare_threshold_percent: Option<u64>,
    pub(super) media_errors: Option<u64>,
    pub(super) reallocated_sectors: Option<u64>,
    pub(super) pending_sectors: Option<u64>,
    pub(super) unsafe_shutdowns: Option<u64>,
    pub(super) power_on_hours: Option<u64>,
    pub(super) written_bytes: Option<u64>,
    pub(super) flash_written_bytes: Option<u64>,
}

/// NVMe counts in thousands of sectors of 512 B.
const NVME_DATA_UNIT_BYTES: u64 = 512_000;

/// Bits of the exit status that say that the drive was not asked: of the command line, and of opening the device.
const NOT_ASKED: u64 = 0b11;

/// Attributes whose normalized value is what is left of the rated life, in percent.
const LIFE_LEFT: [&str; 7] = [
    "Media_Wearout_Indicator",
    "SSD_Life_Left",
    "Percent_Lifetime_Remain",
    "Remaining_Lifetime_Perc",
    "Wear_Leveling_Count",
    "Percent_Life_Remaining",
    "Drive_Life_Remaining%",
];

impl SmartReport {
    /// Reads an output.
    ///
    /// # Errors
    /// Why it says nothing of the drive, for people.
    pub(super) fn parse(output: &[u8]) -> Result<Self, String> {
        let json: Value = serde_json::from_slice(output)
            .map_err(|error| format!("the output of smartctl is not JSON: {error}"))?;
        let status = json["smartctl"]["exit_status"].as_u64();
        let status = status.ok_or("the output of smartctl has no exit status")?;
        if status & NOT_ASKED != 0 {
            return Err(refusal(&json));
        }
        let report = Self::of(&json);
        if report == Self::default().named_as(&report) {
            return Err(format!("it says nothing of its health: {}", refusal(&json)));
        }
        Ok(report)
    }

    /// Nothing but the names of another report.
    fn named_as(self, other: &Self) -> Self {
        let Self { model, serial, firmware, vendor, .. } = other.clone();
        Self { model, serial, firmware, vendor, ..self }
    }

    fn of(json: &Value) -> Self {
        let text = |key: &str| json[key].as_str().map(str::to_owned);
        let temperature = &json["temperature"];
        let limit = ["drive_trip", "op_limit_max", "limit_max"];
        let limit = limit.iter().find_map(|key| temperature[*key].as_i64()).filter(|it| *it > 0);
        let common = Self {
            model: text("model_name").or_else(|| text("scsi_model_name")),
            serial: text("serial_number"),
            firmware: text("firmware_version").or_else(|| text("scsi_revision")),
            vendor: json["nvme_pci_vendor"]["id"].as_u64(),
            has_passed: json["smart_status"]["passed"].as_bool(),
            temperature_celsius: temperature["current"].as_i64(),
            temperature_limit_celsius: limit,
            wear_percent: json["endurance_used"]["current_percent"].as_u64(),
            spare_percent: json["spare_available"]["current_percent"].as_u64(),
            spare_threshold_percent: json["spare_available"]["threshold_percent"].as_u64(),
            power_on_hours: json["power_on_time"]["hours"].as_u64(),
            ..Self::default()
        };
        let log = &json["nvme_smart_health_information_log"];
        if log.is_object() {
            common.with_nvme(log)
        } else if json["ata_smart_attributes"].is_object() {
            common.with_ata(json)
        } else {
            common.with_scsi(json)
        }
    }

    /// NVMe's log page 02h.
    fn with_nvme(self, log: &Value) -> Self {
        let number = |key: &str| log[key].as_u64();
        Self {
            critical_bits: number("critical_warning").unwrap_or(0),
            temperature_celsius: self.temperature_celsius.or(log["temperature"].as_i64()),
            wear_percent: number("percentage_used"),
            spare_percent: number("available_spare"),
            spare_threshold_percent: number("available_spare_threshold"),
            media_errors: number("media_errors"),
            unsafe_shutdowns: number("unsafe_shutdowns"),
            power_on_hours: number("power_on_hours"),
            written_bytes: number("data_units_written")
                .map(|units| units.saturating_mul(NVME_DATA_UNIT_BYTES)),
            ..self
        }
    }

    /// ATA's attributes, and page 7 of its device statistics.
    fn with_ata(self, json: &Value) -> Self {
        let table = AttributeTable(&json["ata_smart_attributes"]["table"]);
        let sector_bytes = json["logical_block_size"].as_u64().unwrap_or(512);
        let wear = statistic_of_wear(json).or(self.wear_percent).or_else(|| table.wear_percent());
        let spare = table.named("Available_Reservd_Space");
        Self {
            failing_attributes: table.failing(),
            wear_percent: wear,
            spare_percent: self.spare_percent.or(spare.and_then(|it| it["value"].as_u64())),
            spare_threshold_percent: self
                .spare_threshold_percent
                .or(spare.and_then(|it| it["thresh"].as_u64())),
            media_errors: table.raw(&["Reported_Uncorrect", "Uncorrectable_Error_Cnt"]),
            reallocated_sectors: table.raw(&["Reallocated_Sector_Ct", "Reallocate_NAND_Blk_Cnt"]),
            pending_sectors: table.raw(&[
                "Current_Pending_Sector",
                "Current_Pending_ECC_Cnt",
                "Pending_Sector_Count",
            ]),
            unsafe_shutdowns: table.raw(&[
                "Unsafe_Shutdown_Count",
                "Unexpect_Power_Loss_Ct",
                "POR_Recovery_Count",
            ]),
            written_bytes: table.written_bytes(sector_bytes),
            flash_written_bytes: table.flash_written_bytes(),
            ..self
        }
    }

    /// SCSI's log pages of errors and of solid state media.
    fn with_scsi(self, json: &Value) -> Self {
        let counters = &json["scsi_error_counter_log"];
        let uncorrected = |what: &str| counters[what]["total_uncorrected_errors"].as_u64();
        let errors = ["read", "write", "verify"].into_iter().filter_map(uncorrected);
        let errors = errors.reduce(u64::saturating_add);
        Self {
            wear_percent: self
                .wear_percent
                .or(json["scsi_percentage_used_endurance_indicator"].as_u64()),
            media_errors: errors,
            reallocated_sectors: json["scsi_grown_defect_list"].as_u64(),
            written_bytes: gigabytes(&counters["write"]["gigabytes_processed"]),
            ..self
        }
    }
}

/// Why a drive was not asked: what smartctl says, and what to do where that is known.
fn refusal(json: &Value) -> String {
    let messages = json["smartctl"]["messages"].as_array();
    let texts = messages.into_iter().flatten().filter_map(|it| it["string"].as_str());
    let said = texts.collect::<Vec<_>>().join("; ");
    if said.contains("Permission denied") || said.contains("Operation not permitted") {
        return format!(
            "no permission to ask it: {said}; CAP_SYS_RAWIO and, for NVMe, CAP_SYS_ADMIN are needed"
        );
    }
    if said.is_empty() { "smartctl gives no reason".to_owned() } else { said }
}

/// The device statistic "Percentage Used Endurance Indicator".
fn statistic_of_wear(json: &Value) -> Option<u64> {
    let pages = json["ata_device_statistics"]["pages"].as_array()?;
    let page = pages.iter().find(|page| page["number"].as_u64() == Some(7))?;
    let entry = page["table"].as_array()?.iter().find(|it| it["offset"].as_u64() == Some(8))?;
    entry["value"].as_u64()
}

/// Of a text or number like `2345.678`, in units of 10^9.
fn gigabytes(value: &Value) -> Option<u64> {
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let (whole, part) = text.split_once('.').unwrap_or((&text, ""));
    let whole: u64 = whole.parse().ok()?;
    let milli: u64 = format!("{part:0<3}").get(..3)?.parse().ok()?;
    Some(whole.saturating_mul(1_000_000_000).saturating_add(milli * 1_000_000))
}

/// Attributes of an ATA drive.
struct AttributeTable<'a>(&'a Value);

impl<'a> AttributeTable<'a> {
    fn all(&self) -> impl Iterator<Item = &'a Value> + use<'a> {
        self.0.as_array().into_iter().flatten()
    }

    fn named(&self, name: &str) -> Option<&'a Value> {
        self.all().find(|it| it["name"].as_str() == Some(name))
    }

    /// The raw value of the first of these names that it has.
    fn raw(&self, names: &[&str]) -> Option<u64> {
        names.iter().find_map(|name| self.named(name)).and_then(raw_number)
    }

    /// Those that are below their thresholds now.
    fn failing(&self) -> Vec<String> {
        let failing = self
            .all()
            .filter(|it| matches!(it["when_failed"].as_str(), Some("now" | "FAILING_NOW")));
        failing.filter_map(|it| it["name"].as_str()).map(str::to_owned).collect()
    }

    fn wear_percent(&self) -> Option<u64> {
        let left = LIFE_LEFT.iter().find_map(|name| self.named(name))?["value"].as_u64()?;
        Some(100_u64.saturating_sub(left))
    }

    fn written_bytes(&self, sector_bytes: u64) -> Option<u64> {
        let units = [
            ("Host_Writes_32MiB", 32 << 20),
            ("Total_Writes_32MiB", 32 << 20),
            ("Host_Writes_MiB", 1 << 20),
            ("Host_Writes_GiB", 1 << 30),
            ("Total_Writes_GiB", 1 << 30),
            ("Lifetime_Writes_GiB", 1 << 30),
            ("Total_Host_Sector_Write", sector_bytes),
            ("Total_LBAs_Written", sector_bytes),
        ];
        self.counted(&units)
    }

    fn flash_written_bytes(&self) -> Option<u64> {
        let units = [
            ("NAND_Writes_32MiB", 32 << 20),
            ("NAND_Writes_1GiB", 1 << 30),
            ("NAND_Writes_GiB", 1 << 30),
            ("NAND_GB_Written_TLC", 1 << 30),
        ];
        self.counted(&units)
    }

    /// The first of these that it has, which counts units of so many bytes.
    fn counted(&self, units: &[(&str, u64)]) -> Option<u64> {
        let count = |(name, bytes): &(&str, u64)| Some(self.raw(&[name])?.saturating_mul(*bytes));
        units.iter().find_map(count)
    }
}

/// What the raw value begins with, as smartctl prints it: other numbers may be packed beside it.
fn raw_number(attribute: &Value) -> Option<u64> {
    let raw = &attribute["raw"];
    let text = raw["string"].as_str().unwrap_or_default();
    let digits = text.split(|it: char| !it.is_ascii_digit()).next().unwrap_or_default();
    digits.parse().ok().or_else(|| raw["value"].as_u64())
}

#[cfg(test)]
mod tests;
