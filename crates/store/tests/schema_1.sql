-- A database of schema version 1 as the store made it: three sessions, one with a prompt of which only the text is known.
-- It never changes; see migration.rs.
pragma application_id = 1399276152;
pragma user_version = 1;
CREATE TABLE sessions (
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
INSERT INTO sessions VALUES(X'01a22eb33d1d7476b47ef5b0798b6bfc',28,6,'idle',1024,1001,0,0,0,'rehearsal','app','manual','A look around','Look around','/home/dev/project','/home/dev/project','{"mode":"ask","sandbox":"workspace_write"}','{"revision":6,"state":{"kind":"idle"}}','small',NULL,'agent-7','{"input_tokens":42,"output_tokens":0,"cached_input_tokens":0,"reasoning_output_tokens":0,"last_total_tokens":0}',NULL,NULL);
INSERT INTO sessions VALUES(X'01a22eb33d46726a94ef0a0ca9777465',7,2,'awaiting_input',1007,1001,0,0,0,'rehearsal','app','default','','do it','/home/dev/project','/home/dev/project','{"mode":"ask","sandbox":"workspace_write"}','{"revision":2,"state":{"kind":"awaiting_input","turn_id":"01a22eb3-3d47-7583-8765-61aec95800b5","pending":[{"id":"01a22eb3-3d49-7753-82d3-045fdd45e21c","kind":"permission","title":"Run ls","options":[],"sequence":1,"requested_at_ms":5,"tool_call":"t1","tool_kind":"execute","command":"ls"}]}}','small',NULL,NULL,NULL,NULL,NULL);
INSERT INTO sessions VALUES(X'01a22eb33d4a702f89c8fdbb980b5c68',6,2,'idle',1005,1001,1,0,0,'rehearsal','app','default','','An old prompt','/home/dev/project','/home/dev/project','{"mode":"ask","sandbox":"workspace_write"}','{"revision":2,"state":{"kind":"idle"}}','small',NULL,NULL,NULL,NULL,NULL);
CREATE TABLE session_details (
    session blob not null primary key,
    roots text not null,
    options text not null,
    rules text not null,
    instructions text,
    queue text
) without rowid;
INSERT INTO session_details VALUES(X'01a22eb33d1d7476b47ef5b0798b6bfc','["/work/other"]','{}','[{"type":"command","command":"ls"}]','Be brief.','{"entries":[{"turn":"01a22eb3-3d44-75fb-b9e1-2a9a8a9911ec","blocks":[{"type":"text","text":"later"}]}],"paused":true}');
INSERT INTO session_details VALUES(X'01a22eb33d46726a94ef0a0ca9777465','["/work/other"]','{}','[]','Be brief.',NULL);
INSERT INTO session_details VALUES(X'01a22eb33d4a702f89c8fdbb980b5c68','["/work/other"]','{}','[]','Be brief.',NULL);
CREATE TABLE facts (
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
INSERT INTO facts VALUES(X'01a22eb33d1d7476b47ef5b0798b6bfc',1,1,NULL,NULL,1001,'session_created','{"type":"session_created","provider":"rehearsal","cwd":"/home/dev/project","roots":["/work/other"],"project_path":"/home/dev/project","policy":{"mode":"ask","sandbox":"workspace_write"},"model":"small","instructions":"Be brief.","source":"app"}');
INSERT INTO facts VALUES(X'01a22eb33d1d7476b47ef5b0798b6bfc',2,2,NULL,2,1002,'agent_text','{"type":"agent_text","message_id":"old","text":"Welcome."}');
INSERT INTO facts VALUES(X'01a22eb33d1d7476b47ef5b0798b6bfc',3,3,X'01a22eb33d24706e8421206e4d295abc',NULL,1003,'activity','{"type":"activity","revision":1,"state":{"kind":"running","turn_id":"01a22eb3-3d24-706e-8421-206e4d295abc"}}');
INSERT INTO facts VALUES(X'01a22eb33d1d7476b47ef5b0798b6bfc',4,4,X'01a22eb33d24706e8421206e4d295abc',4,1004,'prompt','{"type":"prompt","blocks":[],"text":"Look around","display":"Look around","opens":{"cwd":"/home/dev/project","policy":{"mode":"ask","sandbox":"workspace_write"}}}');
INSERT INTO facts VALUES(X'01a22eb33d1d7476b47ef5b0798b6bfc',5,5,X'01a22eb33d24706e8421206e4d295abc',NULL,1005,'title_changed','{"type":"title_changed","title":"A look around","origin":"manual"}');
INSERT INTO facts VALUES(X'01a22eb33d1d7476b47ef5b0798b6bfc',6,7,X'01a22eb33d24706e8421206e4d295abc',300,1006,'agent_text','{"type":"agent_text","message_id":"m300","text":"Looking."}');
INSERT INTO facts VALUES(X'01a22eb33d1d7476b47ef5b0798b6bfc',8,8,X'01a22eb33d24706e8421206e4d295abc',320,1008,'tool_call','{"type":"tool_call","id":"t0","item":"dynamic_tool_call","title":"Read","kind":"read","status":"pending"}');
INSERT INTO facts VALUES(X'01a22eb33d1d7476b47ef5b0798b6bfc',9,9,X'01a22eb33d24706e8421206e4d295abc',320,1009,'tool_call','{"type":"tool_call","id":"t0","item":"dynamic_tool_call","title":"","status":"completed"}');
INSERT INTO facts VALUES(X'01a22eb33d1d7476b47ef5b0798b6bfc',10,10,X'01a22eb33d24706e8421206e4d295abc',NULL,1010,'usage','{"type":"usage","input_tokens":42,"output_tokens":0,"cached_input_tokens":0,"reasoning_output_tokens":0,"last_total_tokens":0}');
INSERT INTO facts VALUES(X'01a22eb33d1d7476b47ef5b0798b6bfc',11,11,X'01a22eb33d24706e8421206e4d295abc',NULL,1011,'activity','{"type":"activity","revision":2,"state":{"kind":"idle"}}');
INSERT INTO facts VALUES(X'01a22eb33d1d7476b47ef5b0798b6bfc',12,12,X'01a22eb33d24706e8421206e4d295abc',NULL,1012,'turn_ended','{"type":"turn_ended","status":"completed"}');
INSERT INTO facts VALUES(X'01a22eb33d1d7476b47ef5b0798b6bfc',13,13,X'01a22eb33d3271c29a83761014ba5289',NULL,1013,'activity','{"type":"activity","revision":3,"state":{"kind":"running","turn_id":"01a22eb3-3d32-71c2-9a83-761014ba5289"}}');
INSERT INTO facts VALUES(X'01a22eb33d1d7476b47ef5b0798b6bfc',14,14,X'01a22eb33d3271c29a83761014ba5289',14,1014,'prompt','{"type":"prompt","blocks":[],"text":"And \"now\"?\nSecond line","display":"And \"now\"?\nSecond line","opens":{"cwd":"/home/dev/project","policy":{"mode":"ask","sandbox":"workspace_write"}}}');
INSERT INTO facts VALUES(X'01a22eb33d1d7476b47ef5b0798b6bfc',15,15,X'01a22eb33d3271c29a83761014ba5289',1300,1015,'agent_text','{"type":"agent_text","message_id":"m1300","text":"Söme"}');
INSERT INTO facts VALUES(X'01a22eb33d1d7476b47ef5b0798b6bfc',16,16,X'01a22eb33d3271c29a83761014ba5289',1300,1016,'agent_text','{"type":"agent_text","message_id":"m1300","text":" more"}');
INSERT INTO facts VALUES(X'01a22eb33d1d7476b47ef5b0798b6bfc',17,17,X'01a22eb33d3271c29a83761014ba5289',17,1017,'plan','{"type":"plan","entries":[{"content":"tidy","status":"pending"}]}');
INSERT INTO facts VALUES(X'01a22eb33d1d7476b47ef5b0798b6bfc',18,18,X'01a22eb33d3271c29a83761014ba5289',NULL,1018,'turn_diff','{"type":"turn_diff","diff":"+x\n+x\n"}');
INSERT INTO facts VALUES(X'01a22eb33d1d7476b47ef5b0798b6bfc',19,19,X'01a22eb33d3271c29a83761014ba5289',NULL,1019,'activity','{"type":"activity","revision":4,"state":{"kind":"failed","turn_id":"01a22eb3-3d32-71c2-9a83-761014ba5289","reason":"provider_error","message":"gone"}}');
INSERT INTO facts VALUES(X'01a22eb33d1d7476b47ef5b0798b6bfc',20,20,X'01a22eb33d3271c29a83761014ba5289',NULL,1020,'turn_ended','{"type":"turn_ended","status":"failed"}');
INSERT INTO facts VALUES(X'01a22eb33d1d7476b47ef5b0798b6bfc',21,21,X'01a22eb33d3c747fb0049866d3715bf5',NULL,1021,'activity','{"type":"activity","revision":5,"state":{"kind":"running","turn_id":"01a22eb3-3d3c-747f-b004-9866d3715bf5"}}');
INSERT INTO facts VALUES(X'01a22eb33d1d7476b47ef5b0798b6bfc',22,22,X'01a22eb33d3c747fb0049866d3715bf5',22,1022,'prompt','{"type":"prompt","blocks":[],"text":"Gone","display":"Gone","opens":{"cwd":"/home/dev/project","policy":{"mode":"ask","sandbox":"workspace_write"}}}');
INSERT INTO facts VALUES(X'01a22eb33d1d7476b47ef5b0798b6bfc',23,23,X'01a22eb33d3c747fb0049866d3715bf5',NULL,1023,'activity','{"type":"activity","revision":6,"state":{"kind":"idle"}}');
INSERT INTO facts VALUES(X'01a22eb33d1d7476b47ef5b0798b6bfc',24,24,X'01a22eb33d3c747fb0049866d3715bf5',NULL,1024,'turn_ended','{"type":"turn_ended","status":"completed"}');
INSERT INTO facts VALUES(X'01a22eb33d1d7476b47ef5b0798b6bfc',25,25,NULL,NULL,1025,'reverted','{"type":"reverted","before_turn":"01a22eb3-3d3c-747f-b004-9866d3715bf5","from_seq":21}');
INSERT INTO facts VALUES(X'01a22eb33d1d7476b47ef5b0798b6bfc',26,26,NULL,NULL,1026,'permission_resolved','{"type":"permission_resolved","input":"01a22eb3-3d44-75fb-b9e1-2a9991252c54","title":"Run ls","decision":"accept_for_session","option_id":"yes","by":{"kind":"client"},"kept_rule":{"type":"command","command":"ls"}}');
INSERT INTO facts VALUES(X'01a22eb33d1d7476b47ef5b0798b6bfc',27,27,NULL,NULL,1027,'agent_session','{"type":"agent_session","id":"agent-7"}');
INSERT INTO facts VALUES(X'01a22eb33d1d7476b47ef5b0798b6bfc',28,28,NULL,NULL,1028,'queue_changed','{"type":"queue_changed","entries":[{"turn":"01a22eb3-3d44-75fb-b9e1-2a9a8a9911ec","blocks":[{"type":"text","text":"later"}]}],"paused":true}');
INSERT INTO facts VALUES(X'01a22eb33d46726a94ef0a0ca9777465',1,1,NULL,NULL,1001,'session_created','{"type":"session_created","provider":"rehearsal","cwd":"/home/dev/project","roots":["/work/other"],"project_path":"/home/dev/project","policy":{"mode":"ask","sandbox":"workspace_write"},"model":"small","instructions":"Be brief.","source":"app"}');
INSERT INTO facts VALUES(X'01a22eb33d46726a94ef0a0ca9777465',2,2,X'01a22eb33d477583876561aec95800b5',NULL,1002,'activity','{"type":"activity","revision":1,"state":{"kind":"running","turn_id":"01a22eb3-3d47-7583-8765-61aec95800b5"}}');
INSERT INTO facts VALUES(X'01a22eb33d46726a94ef0a0ca9777465',3,3,X'01a22eb33d477583876561aec95800b5',NULL,1003,'prompt','{"type":"prompt","blocks":[],"text":"do it","display":"do it","opens":{"cwd":"/home/dev/project","policy":{"mode":"ask","sandbox":"workspace_write"}}}');
INSERT INTO facts VALUES(X'01a22eb33d46726a94ef0a0ca9777465',4,4,X'01a22eb33d477583876561aec95800b5',NULL,1004,'tool_call','{"type":"tool_call","id":"t1","item":"dynamic_tool_call","title":"Run ls","kind":"read","status":"pending"}');
INSERT INTO facts VALUES(X'01a22eb33d46726a94ef0a0ca9777465',5,5,X'01a22eb33d477583876561aec95800b5',NULL,1005,'activity','{"type":"activity","revision":2,"state":{"kind":"awaiting_input","turn_id":"01a22eb3-3d47-7583-8765-61aec95800b5","pending":[{"id":"01a22eb3-3d49-7753-82d3-045fdd45e21c","kind":"permission","title":"Run ls","options":[],"sequence":1,"requested_at_ms":5,"tool_call":"t1","tool_kind":"execute","command":"ls"}]}}');
INSERT INTO facts VALUES(X'01a22eb33d46726a94ef0a0ca9777465',6,6,X'01a22eb33d477583876561aec95800b5',NULL,1006,'permission_requested','{"type":"permission_requested","id":"01a22eb3-3d49-7753-82d3-045fdd45e21c","kind":"permission","title":"Run ls","options":[],"sequence":1,"requested_at_ms":5,"tool_call":"t1","tool_kind":"execute","command":"ls"}');
INSERT INTO facts VALUES(X'01a22eb33d46726a94ef0a0ca9777465',7,7,X'01a22eb33d477583876561aec95800b5',NULL,1007,'prompt','{"type":"prompt","blocks":[],"text":"with an id","display":"with an id","client_message_id":"message-1"}');
INSERT INTO facts VALUES(X'01a22eb33d4a702f89c8fdbb980b5c68',1,1,NULL,NULL,1001,'session_created','{"type":"session_created","provider":"rehearsal","cwd":"/home/dev/project","roots":["/work/other"],"project_path":"/home/dev/project","policy":{"mode":"ask","sandbox":"workspace_write"},"model":"small","instructions":"Be brief.","source":"app"}');
INSERT INTO facts VALUES(X'01a22eb33d4a702f89c8fdbb980b5c68',2,2,X'01a22eb33d4b756789e544fed80836e6',NULL,1002,'activity','{"type":"activity","revision":1,"state":{"kind":"running","turn_id":"01a22eb3-3d4b-7567-89e5-44fed80836e6"}}');
INSERT INTO facts VALUES(X'01a22eb33d4a702f89c8fdbb980b5c68',3,3,X'01a22eb33d4b756789e544fed80836e6',NULL,1003,'prompt','{"type":"prompt","text":"An old prompt"}');
INSERT INTO facts VALUES(X'01a22eb33d4a702f89c8fdbb980b5c68',4,4,X'01a22eb33d4b756789e544fed80836e6',NULL,1004,'activity','{"type":"activity","revision":2,"state":{"kind":"idle"}}');
INSERT INTO facts VALUES(X'01a22eb33d4a702f89c8fdbb980b5c68',5,5,X'01a22eb33d4b756789e544fed80836e6',NULL,1005,'turn_ended','{"type":"turn_ended","status":"completed","stop_reason":"end_turn"}');
INSERT INTO facts VALUES(X'01a22eb33d4a702f89c8fdbb980b5c68',6,6,NULL,NULL,1006,'archived','{"type":"archived","archived":true}');
CREATE TABLE turns (
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
INSERT INTO turns VALUES(X'01a22eb33d1d7476b47ef5b0798b6bfc',3,X'01a22eb33d24706e8421206e4d295abc',12,'completed',0,1,1004,1012,NULL,'{"cwd":"/home/dev/project","policy":{"mode":"ask","sandbox":"workspace_write"}}');
INSERT INTO turns VALUES(X'01a22eb33d1d7476b47ef5b0798b6bfc',13,X'01a22eb33d3271c29a83761014ba5289',20,'failed',0,0,1014,1020,NULL,'{"cwd":"/home/dev/project","policy":{"mode":"ask","sandbox":"workspace_write"}}');
INSERT INTO turns VALUES(X'01a22eb33d1d7476b47ef5b0798b6bfc',21,X'01a22eb33d3c747fb0049866d3715bf5',24,'completed',1,0,1022,1024,NULL,'{"cwd":"/home/dev/project","policy":{"mode":"ask","sandbox":"workspace_write"}}');
INSERT INTO turns VALUES(X'01a22eb33d46726a94ef0a0ca9777465',2,X'01a22eb33d477583876561aec95800b5',NULL,'in_progress',0,0,1003,NULL,NULL,'{"cwd":"/home/dev/project","policy":{"mode":"ask","sandbox":"workspace_write"}}');
INSERT INTO turns VALUES(X'01a22eb33d4a702f89c8fdbb980b5c68',2,X'01a22eb33d4b756789e544fed80836e6',5,'completed',0,0,1003,1005,NULL,'{"cwd":"/home/dev/project","policy":{"mode":"ask","sandbox":"workspace_write"}}');
CREATE TABLE pending_inputs (
    id blob not null primary key,
    session blob not null,
    turn blob,
    sequence integer not null,
    requested_at_ms integer not null,
    body text not null
) without rowid;
INSERT INTO pending_inputs VALUES(X'01a22eb33d49775382d3045fdd45e21c',X'01a22eb33d46726a94ef0a0ca9777465',X'01a22eb33d477583876561aec95800b5',1,5,'{"id":"01a22eb3-3d49-7753-82d3-045fdd45e21c","kind":"permission","title":"Run ls","options":[],"sequence":1,"requested_at_ms":5,"tool_call":"t1","tool_kind":"execute","command":"ls"}');
CREATE TABLE receipts (
    session blob not null,
    -- message: the client's own id of a prompt.
    kind text not null,
    id text not null,
    turn blob,
    seq integer not null,
    primary key (session, kind, id)
) without rowid;
INSERT INTO receipts VALUES(X'01a22eb33d46726a94ef0a0ca9777465','message','message-1',X'01a22eb33d477583876561aec95800b5',7);
CREATE TABLE devices (
    id blob not null primary key,
    name text not null,
    role text not null,
    -- Of the bearer; the bearer itself is nowhere.
    hash blob not null,
    created_at_ms integer not null,
    expires_at_ms integer,
    last_seen_ms integer
) without rowid;
CREATE TABLE counters (
    name text not null primary key,
    value integer not null
) without rowid;
INSERT INTO counters VALUES('pending_sequence',1);
CREATE TABLE deletions (
    session blob not null primary key
) without rowid;
CREATE INDEX sessions_by_update on sessions (archived, updated_at_ms, id, provider, cwd, source);
CREATE INDEX sessions_by_creation on sessions (archived, created_at_ms, id, provider, cwd, source);
CREATE INDEX sessions_open on sessions (id) where state in ('running', 'awaiting_input');
CREATE VIEW appended as
    select session, seq, turn, item_seq, at_ms, kind, body from facts;
CREATE TRIGGER append instead of insert on appended
begin
    select raise(abort, 'not the next seq')
    where not exists (select 1 from sessions where id = new.session and last_seq = new.seq - 1);
    update sessions set last_seq = new.seq where id = new.session;
    insert into facts (session, seq, through_seq, turn, item_seq, at_ms, kind, body)
    values (new.session, new.seq, new.seq, new.turn, new.item_seq, new.at_ms, new.kind, new.body);
end;
CREATE UNIQUE INDEX turns_by_id on turns (session, id);
CREATE INDEX turns_uncompacted on turns (session, first_seq) where compacted = 0 and end_seq is not null;
CREATE UNIQUE INDEX pending_inputs_by_sequence on pending_inputs (sequence);
CREATE INDEX pending_inputs_by_session on pending_inputs (session);
CREATE UNIQUE INDEX devices_by_hash on devices (hash);
