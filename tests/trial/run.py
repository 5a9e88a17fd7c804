"""``make run``: the agent in the foreground on a policy of the checkout, until Ctrl-C."""

import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

from trial import AGENT, PATIENCE_S, agent, end_in_order, trial

INTERRUPTED = 128 + signal.SIGINT


def main() -> int:
    """The agent's exit status; 0 after Ctrl-C."""
    policy = Path(sys.argv[1])
    end_in_order()
    try:
        return _run(policy)
    except SystemExit as ended:
        if ended.code == INTERRUPTED:
            return 0  # the usual end, which make shall not call an error
        raise


def _run(policy: Path) -> int:
    with trial() as here:
        places = ("--policy", str(policy.resolve()), *_trusting(policy), *here.arguments)
        print(f"In another terminal: {shlex.join([str(AGENT), *places, 'status'])}", flush=True)
        with agent("run", *places) as running:
            return _wait(running)


def _wait(running: subprocess.Popen[str]) -> int:
    """Passes Ctrl-C on, so that the agent's log names it. (SIGHUP would not end the agent.)"""
    try:
        return running.wait()
    except SystemExit as ended:
        if ended.code == INTERRUPTED:
            running.send_signal(signal.SIGINT)
            running.wait(PATIENCE_S)
        raise


def _trusting(policy: Path) -> tuple[str, ...]:
    """A checkout may be somebody else's, or writable by a group.

    The refusal protects a service from whoever may write its policy; whoever may write here may change the agent too.
    """
    status = policy.stat()
    if status.st_uid in (0, os.geteuid()) and not status.st_mode & 0o022:
        return ()
    print(f"{policy} can be changed by others than root, which the service would refuse: --insecure-policy", flush=True)
    return ("--insecure-policy",)


if __name__ == "__main__":
    sys.exit(main())
