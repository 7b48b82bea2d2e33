"""Units, schedules, clipping, noise and the accounting that binds them to one claim."""
