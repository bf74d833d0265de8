//! The worlds that a module is run in.

use opship_engine::Target;
use opship_record::plan::Plan;

/// What a world has otherwise than the first one, in which the module was compiled anew for this processor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Perturbation {
    /// Another time at the start.
    Clock,
    /// Another seed of the random source.
    Seed,
    /// The variables in reverse order.
    EnvironmentOrder,
    /// Nothing.
    Repeat,
    /// A tree whose folders list their names in reverse order.
    ListingOrder,
    /// The module's compiled form comes from the cache.
    Cached,
    /// All processors and some memory are busy.
    Load,
    /// The module is compiled for the least processor of this kind.
    Baseline,
    /// The module runs in the interpreter.
    Interpreter,
}

/// More than a year, and other digits in every place of a date and time.
const LATER: u64 = 34_689_599_876_543_211;

impl Perturbation {
    /// All of them: those that a record tells apart first.
    pub const ALL: [Perturbation; 9] = [
        Perturbation::Clock,
        Perturbation::Seed,
        Perturbation::EnvironmentOrder,
        Perturbation::Repeat,
        Perturbation::ListingOrder,
        Perturbation::Cached,
        Perturbation::Load,
        Perturbation::Baseline,
        Perturbation::Interpreter,
    ];

    /// A name for programs, such as `environment-order`.
    pub fn name(self) -> &'static str {
        match self {
            Perturbation::Clock => "clock",
            Perturbation::Seed => "seed",
            Perturbation::EnvironmentOrder => "environment-order",
            Perturbation::Repeat => "repeat",
            Perturbation::ListingOrder => "listing-order",
            Perturbation::Cached => "cached",
            Perturbation::Load => "load",
            Perturbation::Baseline => "baseline",
            Perturbation::Interpreter => "interpreter",
        }
    }

    /// Does a record tell this world from the first? Then a module may do something else in it; in all others it must not.
    pub fn is_recorded(self) -> bool {
        matches!(self, Perturbation::Clock | Perturbation::Seed | Perturbation::EnvironmentOrder)
    }

    /// Are modification times compared? Those of written files follow the clock.
    pub(super) fn compares_times(self) -> bool {
        self != Perturbation::Clock
    }

    /// Does a run in it take as long as in the first?
    pub(super) fn runs_as_fast(self) -> bool {
        !matches!(self, Perturbation::Load | Perturbation::Baseline | Perturbation::Interpreter)
    }

    /// Is the module loaded by an engine that has not seen it?
    pub(super) fn has_own_engine(self) -> bool {
        matches!(self, Perturbation::Cached | Perturbation::Baseline | Perturbation::Interpreter)
    }

    /// What the module is compiled for.
    pub(super) fn target(self) -> Target {
        match self {
            Perturbation::Baseline => Target::Baseline,
            Perturbation::Interpreter => Target::Interpreter,
            _ => Target::Host,
        }
    }

    /// The plan of this world, `None` if it would be the first one's.
    pub(super) fn plan(self, first: &Plan) -> Option<Plan> {
        let mut plan = first.clone();
        match self {
            // By nothing that a module could know.
            Perturbation::Clock => {
                let further = first.seed.iter().take(6).fold(0, |sum, byte| sum << 8 | u64::from(*byte));
                plan.clock_start = first.clock_start.wrapping_add(LATER + further);
            }
            Perturbation::Seed => plan.seed = first.seed.map(|byte| !byte).into(),
            Perturbation::EnvironmentOrder => {
                plan.steps.iter_mut().filter_map(|step| step.environment.as_mut()).for_each(|all| all.reverse());
                return (plan != *first).then_some(plan);
            }
            _ => {}
        }
        Some(plan)
    }
}
