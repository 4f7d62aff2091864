"""What programs and operators do wrong: one sentence that says what to do, and
an exit code that is documented.

Covers: init.c worker/run.c cli/launch.c state.c"""
import os
import subprocess

from house import BUILD, Etcd, Job, claim, main_all, trainer

MISUSE = os.path.join(BUILD, "tests", "misuse")


def alone(mode, env=None):
    done = subprocess.run([MISUSE, mode], capture_output=True, text=True,
                          timeout=60, check=False,
                          env=dict(os.environ, **(env or {})))
    return done.stdout + done.stderr, done.returncode


def job(flags, mode, code, words):
    with Job([*flags, "--max-restarts", "0"], [MISUSE, mode]) as one:
        one.finish(code)
        for word in words:
            claim(word in one.text(), f"{mode}: no word of {word!r}")


def test_alone():
    for mode, words in {
            "registered_twice": ["RG_ERR_INVALID", "registered already"],
            "before_the_door": ["rank -1 size -1", "RG_ERR_INVALID", "rg_run"],
            "group_never_ended": ["rg_run RG_ERR_INVALID", "rg_group_end"],
            "init_of_two_kinds": ["RG_ERR_INVALID", "asks for a world that is",
                                  "NULL for rg_params"]}.items():
        text, code = alone(mode)
        claim(code == 3, f"{mode} ended with {code}")
        for word in words:
            claim(word in text, f"{mode}: no word of {word!r} in {text!r}")


def test_a_launcher_without_an_agent_is_refused():
    for name in ("OMPI_COMM_WORLD_SIZE", "SLURM_NTASKS", "PMI_SIZE"):
        text, code = alone("init_of_two_kinds", {name: "4"})
        claim(code == 3 and "RG_ERR_REFUSED" in text and
              "regroup run -n 4" in text and name in text,
              f"{name}=4 is not refused: {text!r}")


def test_in_a_job():
    job(["-n", "2"], "other_size", 3, ["RG_ERR_INVALID", "64", "128"])
    job(["-n", "1", "--vault-max", "1M"], "too_large", 3,
        ["RG_ERR_MEMORY", "--vault-max"])
    job(["-n", "2"], "before_the_door", 3, ["RG_ERR_INVALID", "rg_run"])


def test_fn_gives_nothing_back():
    job(["-n", "2"], "gives_back_in_fn", 0,
        ["finalize RG_ERR_INVALID: rg_finalize was called inside fn",
         "rg_state_destroy was called inside fn and does nothing",
         "run RG_OK", "at last RG_OK"])


def test_a_set_that_one_rank_makes_is_named():
    job(["-n", "3"], "one_makes_a_set", 3,
        ["different calls on the world: the end of a step, or of fn, on ranks "
         "1,2 but another one, such as the making of a set, on rank 0"])


def test_sentences_name_what_has_no_name():
    job(["-n", "2"], "returns_a_number", 3,
        ["the training function returned -777, which is no rg_status"])
    job(["-n", "2"], "declares_rank_9", 3,
        ["set without a name was declared before rg_run with rank 9"])
    job(["-n", "1"], "odd_name", 0, ["no byte of buffer odd name has changed"])


def test_a_crash_after_the_job_is_no_success():
    job(["-n", "2"], "crashes_after_the_job", 134,
        [".1 was ended by signal 6 (Aborted) after the job was done"])


def test_the_first_code_after_the_job_counts():
    job(["-n", "2"], "codes_after_the_job", 7,
        [".0 exited with code 5 after the job was done"])


def test_the_first_failure_of_a_static_job_says_how_it_ends():
    job(["-n", "4"], "one_fails_first", 44,
        [".1 exited with code 44; the program is static"])


def test_after_an_rg_run_that_failed_there_is_no_world():
    text, _ = alone("after_a_failed_run")
    for word in ("rg_run RG_ERR_NOT_MEMBER: the training function returned "
                 "RG_ERR_NOT_MEMBER", "rank -1",
                 "start RG_ERR_INVALID: rg_run has failed",
                 "gather RG_ERR_INVALID: rg_run has failed"):
        claim(word in text, f"no word {word!r}: {text!r}")


def test_a_group_left_open_ends_with_its_generation():
    with Job(["-n", "2"], [MISUSE, "group_left_open"]) as one:
        one.finish()
        claim("left RG_ERR_PEER_LOST: the group was not started" in one.text(),
              "a wait for a noted operation gets no error")
        claim(one.text().count("sum 2") == 2, "no group in generation 2")


def test_ranks_that_differ_are_named_and_the_set_stays_usable():
    job(["-n", "3"], "ranks_differ", 3,
        ["differ RG_ERR_MISMATCH", "rank 0", "then 3",
         "rg_run RG_ERR_MISMATCH"])


def test_a_rank_that_returns_early_is_named():
    job(["-n", "3"], "returns_at_once", 3,
        ["rank 1 has returned from fn at step 0, ranks 0,2 commit step 1"])
    job(["-n", "3"], "returns_early", 3,
        ["rank 1 has returned from fn at step 7, ranks 0,2 commit step 8"])
    job(["-n", "3"], "returns_in_a_step", 3,
        ["allreduce on ranks 0,2 but the end of a step, or of fn, on rank 1"])


def test_retrying_instead_of_returning_is_named():
    with Job(["-n", "3"], [MISUSE, "tries_again"],
             env={"REGROUP_STALL": "500ms"}) as one:
        one.finish()
        claim("waiting for its ranks 0,2, which have not left fn since the "
              "generation before ended: fn must return the status that it got"
              in one.text(), "no line names the rank that has not left fn")


def test_an_old_status_does_not_reset_forever():
    job(["-n", "2", "--max-restarts", "0"], "status_kept", 3,
        ["run RG_ERR_INVALID: the training function returned RG_ERR_PEER_LOST "
         "10 times", "don't keep a status"])


def test_a_set_ends_with_a_lost_member():
    with Job(["--min", "2", "--max", "3", "--max-restarts", "0"],
             [MISUSE, "set_ended"], env={"REGROUP_FAILPOINT":
             "commit.before_agree:rank1:step9:gen1:start1:kill"}) as one:
        one.process.wait(40)
        one.check()
        claim("set RG_ERR_SET_ENDED" in one.text(),
              "the set did not end with its member")


def test_a_wiped_etcd_is_named():
    with Etcd() as etcd, Job(["-n", "2", "--etcd", etcd.url],
                             trainer("--steps", 100000)) as one:
        one.wait_step(5)
        etcd.kill()
        etcd.wipe()
        etcd.start()
        one.finish(69)
        claim("wiped" in one.text(), "the wiped store is not named")
        one.check()


def test_a_second_job_of_the_same_name_is_refused():
    with Etcd() as etcd, Job(["-n", "1", "--etcd", etcd.url],
                             trainer("--steps", 100000)) as one:
        one.wait_step(5)
        with Job(["-n", "1", "--etcd", etcd.url], trainer()) as two:
            two.finish(69)
            claim("runs already" in two.text(), "not refused by name")


main_all(globals())
