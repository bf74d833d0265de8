//! GF(2^16) as the encoder has it: an element is a sum of the Cantor basis' elements that its bits choose.

use reed_solomon_simd::engine::tables::{self, Exp, Log};

/// The order of the multiplicative group.
const ORDER: u16 = u16::MAX;

/// The field's multiplication. Addition is exclusive or.
#[derive(Clone, Copy)]
pub(super) struct Field {
    exp: &'static Exp,
    log: &'static Log,
}

impl Field {
    pub(super) fn new() -> Field {
        let tables = tables::get_exp_log();
        Field { exp: &tables.exp, log: &tables.log }
    }

    pub(super) fn mul(&self, a: u16, b: u16) -> u16 {
        if b == 0 { 0 } else { tables::mul(a, self.log[usize::from(b)], self.exp, self.log) }
    }

    /// `a / b`; `b` is not 0.
    pub(super) fn div(&self, a: u16, b: u16) -> u16 {
        tables::mul(a, ORDER - self.log[usize::from(b)], self.exp, self.log)
    }

    /// The value of a polynomial, whose lowest coefficient comes first, by Horner's rule.
    pub(super) fn value(&self, polynomial: &[u16], x: u16) -> u16 {
        polynomial.iter().rev().fold(0, |value, coefficient| self.mul(value, x) ^ coefficient)
    }
}
