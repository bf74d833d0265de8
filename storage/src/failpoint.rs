//! The engine's fail points, or nothing at all in a build without them.

#[cfg(feature = "failpoints")]
pub(crate) use opship_engine::failpoint::hit;

/// Nothing: the build is without `failpoints`.
#[cfg(not(feature = "failpoints"))]
#[inline(always)]
pub(crate) fn hit(_: &str) {}
