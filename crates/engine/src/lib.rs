//! Op in, facts and Events out: session actors, activity, parking, policy, commit pipeline.
