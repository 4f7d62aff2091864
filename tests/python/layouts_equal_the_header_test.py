"""Structs, enums and prototypes of the package are those of regroup.h: sizes,
offsets and values as the C compiler has them, arguments as they are declared,
and nothing of the header is missing.

Covers: _abi.py"""
import ctypes
import importlib
import os
import re
import subprocess
import sys
import tempfile

import pyjob
from house import BUILD, SOURCE, claim, main

HEADERS = os.path.join(SOURCE, "sdk/include/regroup")
SCALARS = {"int": ctypes.c_int, "size_t": ctypes.c_size_t,
           "uint64_t": ctypes.c_uint64, "uint32_t": ctypes.c_uint32,
           "double": ctypes.c_double, "void": None,
           "MPI_Comm": ctypes.c_void_p}
HANDLES = {"void", "rg_ctx", "rg_set", "rg_req", "rg_state", "rg_sampler",
           "rg_reducer"}
# Tags of what is only passed on, by the package's own choice of class.
CALLBACKS = {"rg_train_fn": "TrainFn", "rg_reset_fn": "ResetFn",
             "rg_save_fn": "SaveFn",
             "rg_commit_fn": "CommitFn", "rg_break_fn": "BreakFn",
             "rg_color_fn": "ColorFn"}


def load_abi():
    os.environ["REGROUP_LIBRARY"] = os.path.join(BUILD, "lib/libregroup.so")
    sys.path.insert(0, os.path.join(SOURCE, "sdk/python"))
    return importlib.import_module("regroup._abi")


def header(name):
    with open(os.path.join(HEADERS, name), encoding="utf-8") as file:
        text = re.sub(r"/\*.*?\*/", " ", file.read(), flags=re.S)
    return re.sub(r"\s+", " ", text.replace("\\\n", " "))


# --------------------------------------------- values as the compiler has them

def members_of(text, tag):
    """The names that an enum of the header declares."""
    if tag == "rg_status":
        return ["RG_" + name for name in
                re.findall(r"X\((\w+), -?\d+, [A-Z]+,", text)]
    body = re.search(rf"typedef enum {tag} {{(.*?)}}", text).group(1)
    return re.findall(r"\bRG_\w+", body)


def c_program(abi, text):
    """Prints a line for each fact: its name, and its value."""
    facts = []
    for tag, struct in abi.STRUCTS.items():
        facts.append((f"sizeof {tag}", f"sizeof({tag})"))
        for field in struct._fields_:
            place = f"{tag}, {field[0]}"
            facts.append((f"place of {place}", f"offsetof({place})"))
            facts.append((f"sizeof {place}", f"sizeof((({tag} *)0)->"
                                             f"{field[0]})"))
    for tag in abi.ENUMS:
        facts += [(name, name) for name in members_of(text, tag)]
    lines = "".join(f'printf("{name}=%lld\\n", (long long)({value}));\n'
                    for name, value in facts)
    return ("#include <stdio.h>\n#include <regroup/regroup_cuda.h>\n"
            f"int main(void)\n{{\n{lines}return 0;\n}}\n")


def compiled(program):
    with tempfile.TemporaryDirectory(prefix="rg-abi-") as folder:
        source = os.path.join(folder, "facts.c")
        with open(source, "w", encoding="ascii") as file:
            file.write(program)
        subprocess.run(["cc", "-I", os.path.join(SOURCE, "sdk/include"),
                        source, "-o", os.path.join(folder, "facts")],
                       check=True)
        out = subprocess.run([os.path.join(folder, "facts")], text=True,
                             capture_output=True, check=True).stdout
    return {name: int(value) for name, value in
            (line.split("=") for line in out.splitlines())}


def python_facts(abi):
    facts = {}
    for tag, struct in abi.STRUCTS.items():
        facts[f"sizeof {tag}"] = ctypes.sizeof(struct)
        for name, *_ in struct._fields_:
            facts[f"place of {tag}, {name}"] = getattr(struct, name).offset
            facts[f"sizeof {tag}, {name}"] = getattr(struct, name).size
    for values, prefix in abi.ENUMS.values():
        facts.update({prefix + value.name: int(value) for value in values})
    return facts


# --------------------------------------------------------- what is declared

def ctype_of(abi, words):
    """The class for a C type: "const rg_params *" and the like."""
    words = words.replace("const ", "").strip()
    if words in CALLBACKS:
        return getattr(abi, CALLBACKS[words])
    if words in abi.ENUMS:
        return ctypes.c_int
    base, stars = words.rstrip("* "), words.count("*")
    if stars == 0:
        return SCALARS[base]
    if base == "char":
        return ctypes.c_char_p
    if base in HANDLES:
        return (ctypes.c_void_p if stars == 1
                else ctypes.POINTER(ctypes.c_void_p))
    inner = abi.STRUCTS.get(base) or SCALARS.get(base)
    for _ in range(stars):
        inner = ctypes.POINTER(inner)
    return inner


def prototypes(abi, text):
    """{name: (result, [arguments])} of every RG_API function."""
    found = {}
    for result, name, arguments in re.findall(
            r"RG_API ([\w ]+[ *]+)(rg_(?!_)\w+)\(([^)]*)\);", text):
        types = [] if arguments == "void" else [
            re.sub(r"(?<=[ *])\w+(\[\d*\])?$", "", one.strip())
            for one in arguments.split(",")]
        found[name] = (ctype_of(abi, result),
                       [ctype_of(abi, one) for one in types])
    return found


def check_functions(declared, ours, least):
    claim(len(declared) >= least, f"only {len(declared)} functions were found")
    for name in sorted(declared.keys() | ours.keys()):
        claim(ours.get(name) == declared.get(name),
              f"{name} is {ours.get(name)} in the package and "
              f"{declared.get(name)} in the header")


def without_own(declared):
    """The package waits itself, so that Ctrl-C ends a wait: it calls no
    blocking form. An exit code is for main of C."""
    return {name: one for name, one in declared.items()
            if name + "_start" not in declared and name != "rg_exit_code"}


def test():
    pyjob.python_with()
    abi = load_abi()
    text = header("regroup.h") + header("regroup_cuda.h")
    ours, theirs = python_facts(abi), compiled(c_program(abi, text))
    for name in sorted(ours.keys() | theirs.keys()):
        claim(ours.get(name) == theirs.get(name),
              f"{name} is {ours.get(name)} in the package and "
              f"{theirs.get(name)} in regroup.h")
    claim(set(re.findall(r"typedef struct (rg_\w+) {", text)) ==
          set(abi.STRUCTS), "structs of regroup.h and of the package differ")
    claim(set(re.findall(r"typedef enum (rg_\w+) {", text)) == set(abi.ENUMS),
          "enums of regroup.h and of the package differ")
    for name, fields in re.findall(r"typedef struct (rg_\w+) {(.*?)}", text):
        claim(fields.count(";") + fields.count(",") ==
              len(abi.STRUCTS[name]._fields_), f"{name} has other fields")
    check_functions(without_own(prototypes(abi, text)), abi.FUNCTIONS, 40)
    mpi = importlib.import_module("regroup._mpi")
    declared = prototypes(abi, header("regroup_mpi.h"))
    check_functions({name: one for name, one in declared.items()
                     if not name.endswith("_fint")},  # they are for Fortran
                    mpi.functions(ctypes.c_void_p), 4)
    claim(f'RG_VERSION "{abi.VERSION}"' in text, "the versions differ")


main(test)
