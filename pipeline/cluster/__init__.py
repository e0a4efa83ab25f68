"""A shard as a task on another machine: what goes there, what comes back, who may use what."""
