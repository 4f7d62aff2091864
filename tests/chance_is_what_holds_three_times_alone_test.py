"""ci/again, by which ci/test calls a failure chance: one or two tests that
failed run three times more, alone. One that fails or is skipped then was no
chance, nor were three that failed. Tests here end as told, run by run.

Covers: ci/again"""
import os
import subprocess
import sys
import tempfile

SOURCE = os.environ["REGROUP_SOURCE"]
# Its runs: f fails, p passes, s is skipped. It notes each, and whether another
# was under way.
TEST = """name=$1 plan=$2
echo x >>$name
mkdir alone || echo $name >>together
at=$(wc -l <$name)
sleep 0.05 # another would begin meanwhile
rmdir alone
case $(echo $plan | cut -c$at) in
f) exit 1 ;; s) exit 77 ;; p) ;; *) exit 2 ;; esac
"""
wrong = []


def hold(holds, sentence):
    if not holds:
        wrong.append(sentence)


def again(plans):
    """(exit status, output, {name: runs}) behind a ctest with these tests."""
    with tempfile.TemporaryDirectory(prefix="rg-again-") as folder:
        with open(folder + "/test.sh", "w", encoding="ascii") as script:
            script.write(TEST)
        with open(folder + "/CTestTestfile.cmake", "w",
                  encoding="ascii") as tests:
            for name, plan in plans.items():
                tests.write(f"add_test({name} sh test.sh {name} {plan})\n"
                            f"set_tests_properties({name} PROPERTIES "
                            "SKIP_RETURN_CODE 77)\n")
        first = subprocess.run(["ctest", "--test-dir", folder, "-j1"],
                               capture_output=True, check=False)
        fails = any(plan[0] == "f" for plan in plans.values())
        hold((first.returncode != 0) == fails,
             f"{plans}: ctest itself ended with {first.returncode}")
        done = subprocess.run(
            [SOURCE + "/ci/again", folder, "env", "A=b"], text=True,
            capture_output=True, check=False)
        hold(not os.path.exists(folder + "/together"), f"{plans}: not alone")
        runs = {}
        for name in plans:
            with open(f"{folder}/{name}", encoding="ascii") as lines:
                runs[name] = len(lines.readlines())
        return done.returncode, done.stdout, runs


def is_chance(plans, names):
    code, said, runs = again(plans)
    hold(code == 0, f"{plans}: ended with {code}\n{said}")
    last = said.splitlines()[-1] if said else ""
    hold(last == "CHANCE: failed once, and held three times alone: " + names,
         f"{plans}: {last}")
    hold(runs == {name: 4 if name in names.split() else 1 for name in plans},
         f"{plans}: runs {runs}")


def is_none(plans, most):
    code, said, runs = again(plans)
    hold(code == 1 and "CHANCE" not in said, f"{plans}: {code}\n{said}")
    hold(max(runs.values()) == most, f"{plans}: runs {runs}")


is_chance({"one": "fppp", "other": "p"}, "one")
is_chance({"one": "fppp", "two": "fppp"}, "one two")
is_none({"one": "ffpp"}, 2)
is_none({"one": "fppp", "two": "fppf"}, 4)
is_none({"one": "fsss"}, 2)
is_none({"one": "fpps", "two": "fppp"}, 4)
is_none({"one": "fppp", "two": "fppp", "three": "fppp"}, 1)
is_none({"one": "pppp"}, 1)
print("\n".join(wrong))
sys.exit(1 if wrong else 0)
