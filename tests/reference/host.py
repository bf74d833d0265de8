"""Runs a module under wasmtime's own WASI, each time on a real directory that is preopened as `/`.

Standard input is JSON: {"module": path, "runs": [{argv, env, root, stdin, stdout, stderr}]}, where the last four are
paths. Standard output is a JSON list: the exit code of each run, or the reason why it has none.
"""

import json
import sys

from wasmtime import Engine, ExitTrap, Linker, Module, Store, Trap, WasiConfig, WasmtimeError


def run(engine, module, wanted):
    wasi = WasiConfig()
    wasi.argv = wanted["argv"]
    wasi.env = wanted["env"]
    wasi.stdin_file = wanted["stdin"]
    wasi.stdout_file = wanted["stdout"]
    wasi.stderr_file = wanted["stderr"]
    wasi.preopen_dir(wanted["root"], "/")
    store = Store(engine)
    store.set_wasi(wasi)
    linker = Linker(engine)
    linker.define_wasi()
    try:
        linker.instantiate(store, module).exports(store)["_start"](store)
    except ExitTrap as end:
        return end.code
    except (Trap, WasmtimeError) as error:
        return str(error)
    return 0


def main():
    work = json.load(sys.stdin)
    engine = Engine()
    module = Module.from_file(engine, work["module"])
    json.dump([run(engine, module, wanted) for wanted in work["runs"]], sys.stdout)


main()
