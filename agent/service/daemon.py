"""The daemon: one event loop, one worker.

Kernel events are placed at once, in the loop's callbacks. Everything slower (a new policy, a full pass, putting drift
right) is a want: it is noted in a set, which merges repeats, and one worker sees to it, giving way to the callbacks
between its steps. A want says what to look at again, never what to do.
"""

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from typing import Protocol

import structlog

from agent import __version__
from agent.events.event import EventSource
from agent.events.files import PolicyWatch
from agent.events.hotplug import HotplugWatch
from agent.events.mounts import MountWatch, mount_line
from agent.policy.problem import PolicyRefusedError
from agent.resctrl.errors import AlreadyRunningError, GroupGoneError, NotResctrlError
from agent.resctrl.mount import resctrl_at
from agent.service.fast_path import FastPath
from agent.service.keeper import NOT_NOW, Keeper, exhausted
from agent.service.notify import Notifier, watchdog_interval_s
from agent.service.places import DEFAULT_RESCTRL, Places, mount_if_needed
from agent.service.run_state import RunState, forget_run_state, write_run_state
from agent.service.sources import SCAN, open_source
from agent.service.trouble import RETRY_S, Trouble
from agent.service.urgency import Urgency
from agent.service.wants import Want, Wants
from agent.tasks.hierarchy import USUAL_MOUNT, NoHierarchyError

log = structlog.get_logger()

SETTLE_S = 0.03
"""A save is often several changes in a row; the policy is read so long after the first of them."""

MOUNTS_SETTLE_S = 0.1
"""Container starts come with dozens of mounts; the table is read so long after the first of them."""

WORKLOADS_SETTLE_S = 0.1
"""Workloads often start in numbers, and one that restarts comes back soon; monitoring groups are looked at then."""

HOTPLUG_SETTLE_S = 0.05
"""CPUs seldom come or go alone; groups are looked at so long after the first of them."""

RMIDS_AGAIN_S = 5.0
"""Nothing tells of an RMID that has come free; the kernel itself looks for those every second."""

SCAN_EVERY_S = 1.0
"""How often everything is looked at where eBPF cannot be used."""


def run(places: Places, audit_interval_s: float) -> int:
    """Runs the daemon in the foreground until SIGTERM or SIGINT; returns the exit status.

    Raises what the start can fail with: PolicyRefusedError, NotResctrlError, MountError, AlreadyRunningError,
    NoHierarchyError, WrongNamespaceError, OSError and those of NOT_NOW.
    """
    return asyncio.run(Daemon(places, Notifier.from_environment(), audit_interval_s).run())


class _Watched(Protocol):
    def fileno(self) -> int: ...


class Daemon:
    """Wakes the keeper."""

    def __init__(self, places: Places, notifier: Notifier, audit_interval_s: float) -> None:
        self._places = places
        self._notifier = notifier
        self._audit_interval_s = audit_interval_s
        self._wants = Wants()
        self._fast_path = FastPath(self._look_at_everything, self._look_at_workloads, self._in_trouble)
        self._urgency = Urgency()
        self._keeper = Keeper(places, self._fast_path, self._urgency, self._watch_execs)
        self._source: EventSource | None = None
        self._policy_watch: PolicyWatch | None = None
        self._source_name = ""
        self._resctrl_root = DEFAULT_RESCTRL
        self._hierarchy_mount = USUAL_MOUNT
        self._hierarchy_line: str | None = None
        self._pending: dict[str, asyncio.TimerHandle] = {}
        self._stop_reason = ""
        self._trouble = Trouble()
        self._started = time.time()

    async def run(self) -> int:
        """Starts, serves and stops."""
        with contextlib.ExitStack() as resources:
            await self._start(resources)
            self._notifier.ready(self._status())
            log.info("started", version=__version__, event_source=self._source_name, **self._keeper.counts())
            await self._serve()
            self._notifier.stopping()
            forget_run_state(self._places.run, self._resctrl_root)
            log.info("stopped", reason=self._stop_reason)
        return 0

    async def _start(self, resources: contextlib.ExitStack) -> None:
        """Everything that is watched is armed before it is looked at first."""
        self._urgency.take()
        self._catch_signals()
        resources.callback(self._drop_pending)
        self._policy_watch = policy_watch = PolicyWatch(self._places.policy)
        resources.callback(policy_watch.close)
        mounts = MountWatch(self._places.proc)
        resources.callback(mounts.close)
        hotplug = self._watch_hotplug(resources)
        policy = self._keeper.load()
        mounted = mount_if_needed(self._places, policy.mount)
        if mounted:
            log.info("Mounted resctrl", path=str(mounted.path), options=sorted(mounted.options))
        resources.callback(self._keeper.close)
        node = self._keeper.open()
        self._resctrl_root = node.resctrl.root
        self._hierarchy_mount = node.hierarchy.mount
        self._hierarchy_line = mount_line(mounts.table(), node.hierarchy.mount)
        source, self._source_name = open_source(node.hierarchy)
        self._source = source
        self._keeper.sees_tasks = self._source_name != SCAN
        resources.callback(source.close)
        try:
            plan = await self._keeper.put_in_force(policy)
            await self._keeper.move_tasks(plan)
            self._keeper.say_accepted()
        except NOT_NOW as error:
            self._say_if_exhausted(error)
            raise
        self._listen(resources, policy_watch, self._on_policy_change)
        self._listen(resources, mounts, lambda: self._on_mounts(mounts))
        self._listen(resources, source, lambda: self._fast_path.drain(source))
        if hotplug is not None:
            self._listen(resources, hotplug, lambda: self._on_hotplug(hotplug))
        self._every(self._audit_interval_s, Want.CORRECT, Want.PASS)
        if self._source_name == SCAN:
            self._every(SCAN_EVERY_S, Want.PASS)
        interval = watchdog_interval_s()
        if interval is not None:
            self._every(interval, Want.WATCHDOG)
        self._write_state()

    async def _serve(self) -> None:
        work: dict[Want, Callable[[], Awaitable[None]]] = {
            Want.REOPEN: self._reopen,
            Want.RELOAD: self._reload,
            Want.CORRECT: self._keeper.correct,
            Want.MONITOR: self._keeper.monitor,
            Want.PASS: self._keeper.run_pass,
        }
        while (want := await self._wants.take()) is not Want.STOP:
            if want is Want.WATCHDOG:
                self._notifier.watchdog()
                continue
            try:
                await work[want]()
            except NOT_NOW as error:
                self._in_trouble(error)
            if self._keeper.unmonitored:
                self._later("rmids", RMIDS_AGAIN_S, lambda: self._wants.ask(Want.MONITOR))
            self._write_state()

    async def _reload(self) -> None:
        try:
            self._notifier.reloading()
            if self._keeper.node is not None:  # else there is nothing to put it in force on; reopening reads it
                await self._keeper.reload()
        except NOT_NOW as error:
            self._say_if_exhausted(error)
            self._keeper.groups_changed()  # a group may have been removed and made again
            self._wants.ask(Want.PASS)
            self._later("retry", RETRY_S, self._ask_for_reload)
        finally:
            self._notifier.ready(self._status())

    async def _reopen(self) -> None:
        """Resctrl was unmounted or mounted anew: let go of the old one, and start over where there is a new one."""
        self._keeper.close()
        try:
            self._keeper.open()
        except NotResctrlError as error:
            log.error("resctrl is gone, waiting for it to be mounted again", reason=str(error))
            return
        except (AlreadyRunningError, NoHierarchyError, *NOT_NOW) as error:
            self._trouble.note(error)
            self._later("reopen", RETRY_S, lambda: self._wants.ask(Want.REOPEN))
            return
        try:
            await self._keeper.resume()
        except PolicyRefusedError as error:
            log.error("The policy that was in force does not fit resctrl as it is mounted now", reason=str(error))
        except NOT_NOW as error:
            self._in_trouble(error)
            return
        await self._reload()

    def _in_trouble(self, error: Exception) -> None:
        """Something is not as it should be: look at all of it."""
        delay_s = self._trouble.note(error)
        self._say_if_exhausted(error)
        if isinstance(error, GroupGoneError):
            self._keeper.groups_changed()
        if self._keeper.idle:
            self._later("reopen", RETRY_S, lambda: self._wants.ask(Want.REOPEN))
        else:
            self._later("trouble", delay_s, lambda: self._wants.ask(Want.CORRECT, Want.PASS))

    def _look_at_everything(self, delay_s: float) -> None:
        self._later("everything", delay_s, lambda: self._wants.ask(Want.PASS))

    def _look_at_workloads(self) -> None:
        self._later("workloads", WORKLOADS_SETTLE_S, lambda: self._wants.ask(Want.MONITOR))

    def _say_if_exhausted(self, error: Exception) -> None:
        wanted = exhausted(error)
        node = self._keeper.node
        if wanted is not None and node is not None:
            holders = wanted[1] or tuple(node.resctrl.groups())
            log.error(
                "closids exhausted",
                class_=wanted[0],
                total=node.machine.num_closids,
                holders=", ".join(holders),
            )

    def _on_policy_change(self) -> None:
        if self._policy_changed():
            self._later("policy", SETTLE_S, self._ask_for_reload)

    def _ask_for_reload(self) -> None:
        """Unless somebody is in the middle of writing: then the end of that is a change of its own."""
        self._policy_changed()  # what has been told since is taken in
        if self._policy_watch is None or not self._policy_watch.being_written:
            self._wants.ask(Want.RELOAD)

    def _policy_changed(self) -> bool:
        try:
            return self._policy_watch is not None and self._policy_watch.read()
        except OSError as error:
            log.error("Cannot watch the policy file, so changes may go unnoticed until a reload", error=str(error))
            return True

    def _on_mounts(self, mounts: MountWatch) -> None:
        mounts.acknowledge()
        self._later("mounts", MOUNTS_SETTLE_S, lambda: self._look_at_mounts(mounts))

    def _look_at_mounts(self, mounts: MountWatch) -> None:
        table = mounts.table()
        is_mounted = resctrl_at(table, self._resctrl_root) is not None
        if is_mounted == (self._keeper.node is None):
            self._wants.ask(Want.REOPEN)
        hierarchy = mount_line(table, self._hierarchy_mount)
        if hierarchy != self._hierarchy_line:
            self._hierarchy_line = hierarchy
            self._wants.ask(Want.PASS)

    def _watch_hotplug(self, resources: contextlib.ExitStack) -> HotplugWatch | None:
        try:
            watch = HotplugWatch()
        except OSError as error:
            log.warning(
                "Nothing tells when CPUs come or go, so limits they lose stay lost until the next audit",
                reason=str(error),
            )
            return None
        resources.callback(watch.close)
        return watch

    def _on_hotplug(self, watch: HotplugWatch) -> None:
        watch.acknowledge()
        self._later("hotplug", HOTPLUG_SETTLE_S, self._look_at_groups)

    def _look_at_groups(self) -> None:
        """What was refused for want of a cache domain may be possible now."""
        self._keeper.cpus_changed()
        self._wants.ask(Want.RELOAD if self._keeper.refused else Want.CORRECT)

    def _catch_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop, number.name)
        loop.add_signal_handler(signal.SIGHUP, self._wants.ask, Want.RELOAD)

    def _stop(self, reason: str) -> None:
        self._stop_reason = reason
        self._wants.ask(Want.STOP)

    def _listen(self, resources: contextlib.ExitStack, watched: _Watched, callback: Callable[[], None]) -> None:
        loop = asyncio.get_running_loop()
        loop.add_reader(watched.fileno(), callback)
        resources.callback(loop.remove_reader, watched.fileno())

    def _every(self, interval_s: float, *wants: Want) -> None:
        def due() -> None:
            self._wants.ask(*wants)
            loop.call_later(interval_s, due)

        loop = asyncio.get_running_loop()
        loop.call_later(interval_s, due)

    def _later(self, what: str, delay_s: float, then: Callable[[], None]) -> None:
        """Calls ``then`` after a while, unless that is on its way already."""

        def due() -> None:
            del self._pending[what]
            then()

        if what not in self._pending:
            self._pending[what] = asyncio.get_running_loop().call_later(delay_s, due)

    def _drop_pending(self) -> None:
        for timer in self._pending.values():
            timer.cancel()

    def _watch_execs(self, wanted: bool) -> None:  # noqa: FBT001 - as the source has it
        if self._source is not None:
            self._source.watch_execs(wanted)

    def _status(self) -> str:
        counts = self._keeper.counts()
        refused = self._keeper.refused
        state = f"{counts['classes']} classes, {counts['rules']} rules, events from {self._source_name}"
        return f"{state}; the policy file is refused: {refused.splitlines()[0]}" if refused else state

    def _write_state(self) -> None:
        node = self._keeper.node
        if node is None:
            return
        state = RunState(
            pid=os.getpid(),
            version=__version__,
            event_source=self._source_name,
            started=self._started,
            policy=str(self._places.policy),
            policy_ok=self._keeper.refused is None,
            refused=self._keeper.refused,
            contended=tuple(asdict(left) for left in self._keeper.contended),
            audit_s=self._keeper.pass_s,
        )
        try:
            write_run_state(self._places.run, node.resctrl.root, state)
        except OSError as error:
            log.debug("Cannot write what status shows of the agent", error=str(error))
