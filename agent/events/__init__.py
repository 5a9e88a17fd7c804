"""What wakes the agent: kernel events (bcc), file changes (inotify)."""
