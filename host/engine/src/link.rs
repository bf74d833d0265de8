//! The imports of a module, linked to the methods of [`World`].

use crate::run::{End, RunState};
use opship_world::{Trap, World};
use wasmtime::{Caller, Linker, Memory};

/// Functions that do not look at the module's memory.
const WITHOUT_MEMORY: [&str; 11] = [
    "fd_advise",
    "fd_allocate",
    "fd_close",
    "fd_datasync",
    "fd_sync",
    "fd_renumber",
    "proc_exit",
    "proc_raise",
    "sched_yield",
    "sock_shutdown",
    "progress",
];

/// An import that a world offers.
pub(crate) struct Import {
    pub(crate) module: &'static str,
    pub(crate) name: &'static str,
    /// The parameters: `true` for i64, `false` for i32.
    pub(crate) wide: &'static [bool],
    /// Does it give an errno (an i32)?
    pub(crate) result: bool,
}

impl Import {
    /// Does it look at the module's memory?
    pub(crate) fn needs_memory(&self) -> bool {
        !WITHOUT_MEMORY.contains(&self.name)
    }
}

/// The two types of the table of imports.
trait Wide {
    const WIDE: bool;
}

impl Wide for u32 {
    const WIDE: bool = false;
}

impl Wide for u64 {
    const WIDE: bool = true;
}

macro_rules! link_one {
    ($linker:ident, $module:literal, $name:literal, proc_exit, ($code:ident: $type:ty)) => {
        $linker.func_wrap($module, $name, |caller: Caller<'_, RunState>, $code: $type| {
            call(caller, |world, memory| world.proc_exit(memory, $code)).map(|_errno| ())
        })?;
    };
    ($linker:ident, $module:literal, $name:literal, $method:ident, ($($argument:ident: $type:ty),*)) => {
        $linker.func_wrap($module, $name, |caller: Caller<'_, RunState>, $($argument: $type),*| {
            call(caller, |world, memory| world.$method(memory, $($argument),*))
        })?;
    };
}

macro_rules! gives_errno {
    (proc_exit) => {
        false
    };
    ($method:ident) => {
        true
    };
}

macro_rules! link_all {
    ($(($module:literal, $name:literal, $method:ident, ($($argument:ident: $type:ty),*));)*) => {
        /// Makes every import of the table callable.
        pub(crate) fn link(linker: &mut Linker<RunState>) -> wasmtime::Result<()> {
            $( link_one!(linker, $module, $name, $method, ($($argument: $type),*)); )*
            Ok(())
        }

        /// Every import that a world offers.
        pub(crate) const IMPORTS: &[Import] = &[$(
            Import {
                module: $module,
                name: $name,
                wide: &[$(<$type as Wide>::WIDE),*],
                result: gives_errno!($method),
            }
        ),*];
    };
}
opship_world::for_each_import!(link_all);

/// Calls a function of the world on the module's memory and gives the errno.
fn call(
    mut caller: Caller<'_, RunState>,
    function: impl FnOnce(&mut World, &mut [u8]) -> Result<(), Trap>,
) -> wasmtime::Result<u32> {
    let ended = match memory(&mut caller) {
        Some(memory) => {
            let (bytes, state) = memory.data_and_store_mut(&mut caller);
            function(&mut state.world, bytes)
        }
        None => function(&mut caller.data_mut().world, &mut []),
    };
    match ended {
        Ok(()) => Ok(0),
        Err(Trap::Errno(errno)) => Ok(u32::from(errno.raw())),
        Err(Trap::Exit(code)) => Err(End::Exit(code).into()),
        Err(Trap::Fault(fault)) => Err(End::Fault(fault).into()),
    }
}

/// The module's memory; looked up once a run, also by a call from a start function, before instantiating has ended.
fn memory(caller: &mut Caller<'_, RunState>) -> Option<Memory> {
    if let Some(memory) = caller.data().memory {
        return Some(memory);
    }
    let memory = caller.get_export("memory")?.into_memory()?;
    caller.data_mut().memory = Some(memory);
    Some(memory)
}
