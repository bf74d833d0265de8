"""Runs a module under wasmtime's own WASI on a real directory and prints how long it ran, in nanoseconds.

Arguments: the module, the directory (preopened as `/`), then the module's arguments. The module is compiled beforehand,
and kept compiled beside this run's directory, so that neither that nor the start of Python counts.
"""

import os
import sys
import time

from wasmtime import Engine, ExitTrap, Linker, Module, Store, WasiConfig


def main():
    path, root, *arguments = sys.argv[1:]
    engine = Engine()
    compiled = root + ".compiled"
    if not os.path.exists(compiled):
        with open(compiled, "wb") as file:
            file.write(Module.from_file(engine, path).serialize())
    module = Module.deserialize_file(engine, compiled)
    linker = Linker(engine)
    linker.define_wasi()
    start = time.perf_counter_ns()
    wasi = WasiConfig()
    wasi.argv = ["guest", *arguments]
    wasi.inherit_stderr()
    wasi.preopen_dir(root, "/")
    store = Store(engine)
    store.set_wasi(wasi)
    try:
        linker.instantiate(store, module).exports(store)["_start"](store)
    except ExitTrap as end:
        if end.code != 0:
            raise
    print(time.perf_counter_ns() - start)


main()
