"""The constants of the Fortran module have the values of the header, and its
structures the sizes.

Covers: regroup.F90"""

import re
import subprocess
import tempfile

from house import SOURCE, claim, main

HEADER = SOURCE + "/sdk/include/regroup/regroup.h"


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def values_of_c(names, structures):
    """What a C program says that includes the header."""
    with tempfile.TemporaryDirectory(prefix="rg-") as folder:
        with open(folder + "/say.c", "w", encoding="ascii") as file:
            file.write(f'#include "{HEADER}"\n#include <stdio.h>\n'
                       "int main(void)\n{\n")
            for name in names:
                file.write(f'printf("%d\\n", (int){name});\n')
            for name in structures:
                file.write(f'printf("%d\\n", (int)sizeof({name}));\n')
            file.write("return 0;\n}\n")
        subprocess.run(["gcc", folder + "/say.c", "-o", folder + "/say"],
                       check=True)
        said = subprocess.run([folder + "/say"], capture_output=True,
                              check=True, text=True).stdout
    return dict(zip([*names, *structures], map(int, said.split())))


def test():
    module = read(SOURCE + "/sdk/fortran/regroup.F90")
    mine = dict(re.findall(r"\b(RG_[A-Z0-9_]+) = (-?\d+)", module))
    mine.update(re.findall(r"type, bind\(C\).*? :: (rg_\w+)\n"
                           r" *integer\(c_size_t\) :: bytes = (\d+)", module))
    names = [name for name in mine if name.startswith("RG_")]
    structures = [name for name in mine if name.startswith("rg_")]
    claim(len(names) > 45 and len(structures) == 6, f"found {sorted(mine)}")
    theirs = values_of_c(names, structures)
    wrong = {name: (mine[name], theirs[name]) for name in mine
             if int(mine[name]) != theirs[name]}
    claim(not wrong, f"in Fortran and in C: {wrong}")
    statuses = re.findall(r"X\((\w+), +-?\d+, [A-Z]+, \"", read(HEADER))
    missing = [name for name in statuses if "RG_" + name not in mine]
    claim(not missing, f"the module lacks {missing}")


main(test)
