-- Sessions: everything a list shows, and the durable high-water mark. Kept narrow, because every commit rewrites the
-- row of its session. Ids are 16-byte blobs: less than half of their text, and compared in time order (UUIDv7).
create table sessions (
    id blob not null primary key,
    -- High-water mark of the session's facts; the next seq comes from here, never from the fact rows.
    last_seq integer not null,
    activity_revision integer not null,
    -- idle, running, awaiting_input, failed: the kind inside `activity`.
    state text not null,
    updated_at_ms integer not null,
    created_at_ms integer not null,
    archived integer not null,
    worktree_discarded integer not null,
    ephemeral integer not null,
    provider text not null,
    source text not null,
    title_origin text not null,
    title text not null,
    preview text not null,
    cwd text not null,
    project_path text not null,
    policy text not null,
    activity text not null,
    model text,
    effort text,
    agent_session text,
    usage text,
    worktree text,
    forked_from blob
) without rowid;

-- The filter columns ride along, so that a filtered page is found in the index alone.
create index sessions_by_update on sessions (archived, updated_at_ms, id, provider, cwd, source);
create index sessions_by_creation on sessions (archived, created_at_ms, id, provider, cwd, source);
create index sessions_open on sessions (id) where state in ('running', 'awaiting_input');

-- What may be large and changes rarely.
create table session_details (
    session blob not null primary key,
    roots text not null,
    options text not null,
    rules text not null,
    instructions text,
    queue text
) without rowid;

-- The log. One b-tree in reading order: a turn's facts lie together however many sessions write at once.
create table facts (
    session blob not null,
    seq integer not null,
    -- Greater than seq only where compaction joined chunks.
    through_seq integer not null,
    turn blob,
    item_seq integer,
    at_ms integer not null,
    kind text not null,
    body text not null,
    primary key (session, seq)
) without rowid;

-- Appends facts that change nothing but the log and the high-water mark: the common commit, chunks of text. One statement
-- is a whole transaction, and costs a third of the changes of thread that begin, update, insert and commit would.
create view appended as
    select session, seq, turn, item_seq, at_ms, kind, body from facts;

create trigger append instead of insert on appended
begin
    select raise(abort, 'not the next seq')
    where not exists (select 1 from sessions where id = new.session and last_seq = new.seq - 1);
    update sessions set last_seq = new.seq where id = new.session;
    insert into facts (session, seq, through_seq, turn, item_seq, at_ms, kind, body)
    values (new.session, new.seq, new.seq, new.turn, new.item_seq, new.at_ms, new.kind, new.body);
end;

create table turns (
    session blob not null,
    -- Its facts begin here and end before the next turn's; late ones included.
    first_seq integer not null,
    id blob not null,
    end_seq integer,
    status text not null,
    reverted integer not null,
    compacted integer not null,
    started_at_ms integer not null,
    ended_at_ms integer,
    failure text,
    context text not null,
    primary key (session, first_seq)
) without rowid;

create unique index turns_by_id on turns (session, id);
create index turns_uncompacted on turns (session, first_seq) where compacted = 0 and end_seq is not null;

-- What waits for an answer now; how it was answered is in the facts.
create table pending_inputs (
    id blob not null primary key,
    session blob not null,
    turn blob,
    sequence integer not null,
    requested_at_ms integer not null,
    body text not null
) without rowid;

create unique index pending_inputs_by_sequence on pending_inputs (sequence);
create index pending_inputs_by_session on pending_inputs (session);

-- What a client sent once is accepted once.
create table receipts (
    session blob not null,
    -- message: the client's own id of a prompt.
    kind text not null,
    id text not null,
    turn blob,
    seq integer not null,
    primary key (session, kind, id)
) without rowid;

create table devices (
    id blob not null primary key,
    name text not null,
    role text not null,
    -- Of the bearer; the bearer itself is nowhere.
    hash blob not null,
    created_at_ms integer not null,
    expires_at_ms integer,
    last_seen_ms integer
) without rowid;

create unique index devices_by_hash on devices (hash);

create table counters (
    name text not null primary key,
    value integer not null
) without rowid;

-- The highest sequence number that a stored pending input ever had, over all sessions.
insert into counters (name, value) values ('pending_sequence', 0);

-- Sessions whose rows are gone and whose facts are being removed, slice by slice.
create table deletions (
    session blob not null primary key
) without rowid;
