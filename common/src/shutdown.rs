//! Turning SIGTERM and SIGINT into one cancellation.
