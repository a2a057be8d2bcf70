-- Sessions with follow-ups that wait: found at start-up without a look at every session.
create index session_details_queued on session_details (session) where queue is not null;
