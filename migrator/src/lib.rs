//! Takes a legacy S3 store over: plan, copy, verify, marker.
