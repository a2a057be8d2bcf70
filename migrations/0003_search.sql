-- Which prompts and answers the search index holds; their texts stay in `facts` alone.
create table search_docs (
    id integer not null primary key,
    session blob not null,
    -- Seq of its first fact, and the last seq that the index knows of it.
    seq integer not null,
    through_seq integer not null,
    item_seq integer
);

create unique index search_docs_by_place on search_docs (session, seq);

-- Few turns are ever reverted: of a session without one, a single look here tells.
create index turns_reverted on turns (session, first_seq) where reverted = 1;

-- Words only: what is shown of a match comes from the facts. Words are split and folded as `words.rs` says.
-- The last word of a search is a prefix while it is typed; short ones would take a walk over all words without an index.
create virtual table search_words using fts5 (
    body, content = '', contentless_delete = 1, prefix = '1 2 3', tokenize = "unicode61 remove_diacritics 2"
);

-- How far a session is indexed. Sessions without a row are of before there was an index, or new.
create table search_progress (
    session blob not null primary key,
    through_seq integer not null
) without rowid;
