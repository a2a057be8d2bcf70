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

-- Words only: what is shown of a match comes from the facts. Words are split and folded as `words.rs` says.
create virtual table search_words using fts5 (
    body, content = '', contentless_delete = 1, tokenize = "unicode61 remove_diacritics 2"
);

-- How far a session is indexed. Sessions without a row are of before there was an index, or new.
create table search_progress (
    session blob not null primary key,
    through_seq integer not null
) without rowid;
