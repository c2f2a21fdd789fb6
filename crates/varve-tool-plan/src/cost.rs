//! What nodes and clusters cost. F7, from Micron's comparison; the total over years is ours, with each part on a line
//! of its own.

use serde::Serialize;

use crate::catalogue::Prices;
use crate::error::{Result, positive};
use crate::rounding::real;
use crate::units::{Amount, Bytes, Joules, Money, OpRate, Seconds, Share, Watts};

/// Price of a node (formula F7), as multiples of a base server and a base memory, which is how the source gives it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct NodePrice {
    /// Multiple of the base server's price.
    pub server: f64,
    /// Multiple of the base memory's price.
    pub memory: f64,
    /// Price of all its drives.
    pub drives: Money,
}

impl NodePrice {
    /// The price where a base server and a base memory cost so much.
    #[must_use]
    pub fn total(self, server: Money, memory: Money) -> Money {
        server * self.server + memory * self.memory + self.drives
    }
}

/// The price of a base server at which `other` costs `ratio` times `base`, from the memory's price (formula F7 solved
/// for it). For the source's ratio of 2.7 this is 1.4 × server − 1.3 × memory = 4980.
///
/// # Errors
/// [`crate::Error::Range`] when no price does.
pub fn server_price(base: NodePrice, other: NodePrice, ratio: f64, memory: Money) -> Result<Money> {
    let servers = ratio * base.server - other.server;
    let servers = positive("servers that the ratio leaves over", servers)?;
    let left = other.total(Money::ZERO, memory) - base.total(Money::ZERO, memory) * ratio;
    Ok(left / servers)
}

/// Price for each TB of `capacity`, raw or usable as given (formula F7).
#[must_use]
pub fn per_tb(price: Money, capacity: Bytes) -> f64 {
    price.base() / capacity.tb()
}

/// Price for each operation a second (formula F7).
#[must_use]
pub fn per_operation(price: Money, rate: OpRate) -> f64 {
    price.base() / rate.base()
}

/// The price of one of `drives` drives at which a node, whose other parts cost `rest`, costs `per_tb` for each usable
/// TB.
///
/// # Errors
/// [`crate::Error::Range`] when there are no drives.
pub fn break_even_drive(per_tb: f64, usable: Bytes, rest: Money, drives: u64) -> Result<Money> {
    let drives = positive("the number of drives", real(drives))?;
    Ok((Money::of_base(per_tb * usable.tb()) - rest) / drives)
}

/// What all costs of a plan are counted with: every price and factor that is not one of a part.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct CostBasis {
    /// Currency of all prices; empty where the catalogue names none.
    pub currency: String,
    /// Price of a kWh; power costs nothing without.
    pub kwh: Option<Money>,
    /// Power with cooling ÷ power of the machines.
    pub power_usage_effectiveness: f64,
    /// Price of a rack unit for a year; racks cost nothing without.
    pub rack_unit_per_year: Option<Money>,
    /// Part of the drives that is replaced in a year.
    pub replaced_per_year: Share,
    /// Those of these fields that no source gives.
    pub assumed: Vec<String>,
}

impl CostBasis {
    /// By the prices of a catalogue.
    #[must_use]
    pub fn of(prices: &Prices) -> Self {
        Self {
            currency: prices.currency.clone().unwrap_or_default(),
            kwh: prices.kwh,
            power_usage_effectiveness: prices.power_usage_effectiveness.unwrap_or(1.0),
            rack_unit_per_year: prices.rack_unit_per_year,
            replaced_per_year: prices.replaced_per_year.unwrap_or(Share::ZERO),
            assumed: prices.assumed.clone(),
        }
    }
}

/// What running costs.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct RunningCosts {
    /// For how long.
    pub time: Seconds,
    /// Power of the machines.
    pub power: Watts,
    /// Power with cooling ÷ power of the machines.
    pub power_usage_effectiveness: f64,
    /// Price of a kWh.
    pub price_per_kwh: Money,
    /// Rack units taken.
    pub rack_units: f64,
    /// Price of one for a year.
    pub price_per_rack_unit_and_year: Money,
    /// Price of all drives.
    pub drives: Money,
    /// Part of the drives that is replaced in a year, failed or worn out.
    pub replaced_per_year: f64,
}

/// Cost of owning a cluster, by what it is for.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Ownership {
    /// Buying it.
    pub purchase: Money,
    /// Electricity, cooling included.
    pub power: Money,
    /// Room in racks.
    pub rack: Money,
    /// Drives that replace others.
    pub replacement: Money,
    /// All of it.
    pub total: Money,
}

impl RunningCosts {
    /// Purchase and running together (formula F7).
    #[must_use]
    pub fn ownership(self, purchase: Money) -> Ownership {
        let energy: Joules = self.power * self.time * self.power_usage_effectiveness;
        let kwh = energy.base() / 3.6e6;
        let years = self.time.years();
        let power = self.price_per_kwh * kwh;
        let rack = self.price_per_rack_unit_and_year * self.rack_units * years;
        let replacement = self.drives * self.replaced_per_year * years;
        let total = purchase + power + rack + replacement;
        Ownership { purchase, power, rack, replacement, total }
    }
}
