# A connection that puma has accepted goes to a thread at once; otherwise one that has said nothing
# yet is closed when puma ends.
queue_requests false
