"""versitygw's own test suite against our gateway: what we answer differently is a checked-in list with reasons."""

from pathlib import Path

import pytest

from harness.versitygw_suite import expected_failures, parse, run

LIST = Path(__file__).with_name("versitygw-expected-failures.txt")
# Cases that must pass, whatever the list says (the suite has 687).
AT_LEAST = 400


def test_reads_the_suites_output():
    """The parser, on lines as the suite prints them."""
    output = ("\x1b[36mRUN  \x1b[0mA_one\n\x1b[36mRUN  \x1b[0mB_two\n\x1b[31mFAIL \x1b[0mB_two: expected x,\ninstead got y: z\n"
              "\x1b[32mPASS \x1b[0mA_one\n\x1b[36mRUN  \x1b[0mC\n\x1b[31mC: failed to delete the bucket: not empty\x1b[36mRUN  \x1b[0mD\n\x1b[32mPASS \x1b[0mD\n\x1b[33mSKIP \x1b[0mE\n")
    assert parse(output) == {"A_one": "", "B_two": "expected x,\ninstead got y: z", "C": "did not end: its bucket could not be removed", "D": ""}


@pytest.mark.timeout(1200)
def test_full_flow(fleet, tmp_path):
    gateway = fleet.gateway()
    empty = tmp_path / "empty"
    empty.mkdir()
    results, output = run(gateway, empty, "full-flow", "--parallel")
    (tmp_path / "full-flow.log").write_text(output)
    assert len(results) > 600, output[-3000:]
    failed = {name: why for name, why in results.items() if why}
    listed = expected_failures(LIST)

    # Parallel cases may disturb each other through the list of all buckets: what is a surprise counts when it is one alone, too.
    def passes_alone(name: str) -> bool:
        return run(gateway, empty, name)[0].get(name) == ""

    for name in [name for name in failed if name not in listed]:
        if passes_alone(name):
            del failed[name]
    unlisted = [f"{name}: {why}" for name, why in sorted(failed.items()) if name not in listed]
    passing = sorted(name for name in listed if results.get(name) == "" and passes_alone(name))
    unknown = sorted(name for name in listed if name not in results)
    passed = len(results) - len(failed)
    print(f"versitygw's suite: {passed} of {len(results)} cases pass, {len(listed)} are listed")
    assert not unlisted, "fail and are not listed:\n" + "\n".join(unlisted)
    assert not passing, "are listed as failing and pass: " + ", ".join(passing)
    assert not unknown, "are listed and no cases of the suite: " + ", ".join(unknown)
    assert passed >= AT_LEAST
