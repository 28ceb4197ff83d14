"""Patterns on Redis that are not the queue: token buckets for tenants, and a lock with a fencing number."""
