//! Outputs of smartctl for drives of several vendors, in the form of its documented schema.

use super::super::fixture;
use super::super::warnings::warnings;
use super::*;

fn report(output: &str) -> SmartReport {
    SmartReport::parse(output.as_bytes()).unwrap()
}

fn kinds(report: &SmartReport) -> Vec<String> {
    warnings(report, report).into_iter().map(|it| it.kind).collect()
}

#[test]
fn a_healthy_nvme_drive_is_read() {
    let report = report(fixture!("intel-nvme"));
    assert_eq!(report.model.as_deref(), Some("INTEL SSDPE2KX040T8"));
    assert_eq!((report.vendor, report.has_passed), (Some(0x8086), Some(true)));
    assert_eq!((report.wear_percent, report.spare_percent), (Some(4), Some(100)));
    assert_eq!(report.written_bytes, Some(1_234_567_890 * 512_000));
    assert_eq!((report.temperature_celsius, report.power_on_hours), (Some(37), Some(26_280)));
    assert_eq!((report.media_errors, report.unsafe_shutdowns), (Some(0), Some(31)));
    assert_eq!(kinds(&report), [""; 0]);
}

#[test]
fn each_bit_of_a_failing_nvme_drive_is_told() {
    let report = report(fixture!("samsung-nvme-failing"));
    assert_eq!(kinds(&report), ["spare_low", "unreliable", "read_only", "worn"]);
    let said = &warnings(&report, &report)[0].message;
    assert_eq!(said, "4 % of its spare flash are left, below its threshold of 10 %");
}

#[test]
fn attributes_of_intel_are_counted_in_their_units() {
    let report = report(fixture!("intel-sata"));
    assert_eq!(report.wear_percent, Some(3), "by the device statistics, not the attribute");
    assert_eq!(report.written_bytes, Some(1_000_000 * (32 << 20)));
    assert_eq!(report.flash_written_bytes, Some(1_500_000 * (32 << 20)));
    assert_eq!((report.spare_percent, report.spare_threshold_percent), (Some(99), Some(10)));
    assert_eq!((report.reallocated_sectors, report.media_errors), (Some(2), Some(1)));
    assert_eq!(report.unsafe_shutdowns, Some(22));
    assert_eq!(kinds(&report), [""; 0]);
}

#[test]
fn attributes_of_samsung_have_other_names() {
    let report = report(fixture!("samsung-sata"));
    assert_eq!(report.wear_percent, Some(8), "100 less the normalized value");
    assert_eq!(report.written_bytes, Some(123_456_789_012 * 512));
    assert_eq!((report.media_errors, report.unsafe_shutdowns), (Some(0), Some(17)));
    assert_eq!(report.flash_written_bytes, None);
    assert_eq!(kinds(&report), [""; 0]);
}

#[test]
fn a_disk_that_fails_names_the_attribute() {
    let report = report(fixture!("seagate-hdd-failing"));
    assert_eq!(report.reallocated_sectors, Some(45_136), "of a raw value with three numbers");
    assert_eq!((report.pending_sectors, report.media_errors), (Some(344), Some(312)));
    assert_eq!((report.wear_percent, report.spare_percent), (None, None));
    assert_eq!(kinds(&report), ["failing", "pending"]);
    let said = &warnings(&report, &report)[0].message;
    assert_eq!(said, "below its threshold: Reallocated_Sector_Ct");
}

#[test]
fn log_pages_of_scsi_are_read() {
    let report = report(fixture!("sas-ssd"));
    assert_eq!(report.model.as_deref(), Some("KIOXIA KPM5XRUG3T84"));
    assert_eq!(report.wear_percent, Some(7));
    assert_eq!((report.media_errors, report.reallocated_sectors), (Some(3), Some(3)));
    assert_eq!(report.written_bytes, Some(45_678_900_000_000));
    assert_eq!(report.temperature_limit_celsius, Some(70));
    assert_eq!(kinds(&report), [""; 0]);
}

#[test]
fn who_says_nothing_is_not_known() {
    let refused = |output: &str| SmartReport::parse(output.as_bytes()).unwrap_err();
    let permission = refused(fixture!("no-permission"));
    assert!(permission.contains("no permission") && permission.contains("CAP_SYS_RAWIO"));
    assert!(refused(fixture!("unsupported")).contains("Unable to detect device type"));
    assert!(refused(fixture!("virtual-disk")).contains("says nothing of its health"));
    for output in ["", "{", "[]", "{}", "\"text\"", r#"{"smartctl": {"exit_status": "0"}}"#] {
        assert!(!refused(output).is_empty(), "{output}");
    }
    assert!(refused(r#"{"smartctl": {"exit_status": 0}}"#).contains("nothing of its health"));
}

#[test]
fn outputs_that_are_cut_off_or_changed_never_panic() {
    let all = [
        fixture!("intel-nvme"),
        fixture!("intel-sata"),
        fixture!("seagate-hdd-failing"),
        fixture!("sas-ssd"),
    ];
    for output in all {
        let step = output.len() / 50 + 1;
        for end in (0..output.len()).step_by(step).filter(|end| output.is_char_boundary(*end)) {
            assert!(SmartReport::parse(&output.as_bytes()[..end]).is_err());
        }
        // Numbers become texts, texts numbers, and lists nothing.
        for (what, with) in
            [("\": ", "\": \"x\", \"y\": "), ("[", "null, \"z\": ["), ("0", "99999999999999999999")]
        {
            let changed = output.replace(what, with);
            let _ = SmartReport::parse(changed.as_bytes()).map(|report| warnings(&report, &report));
        }
    }
}
