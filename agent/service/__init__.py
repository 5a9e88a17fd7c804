"""The daemon: event loop, readiness, reload, watchdog, logs and journal."""
