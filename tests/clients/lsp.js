// Node's `vscode-jsonrpc` against the binary, over stdio with Content-Length headers: `lsp.js BINARY WORK`.
//
// Run by run.py, with the library's folder in NODE_PATH. Prints what it sees; what is wrong is an exception.
'use strict';

const assert = require('node:assert');
const { spawn } = require('node:child_process');
const { existsSync } = require('node:fs');
const path = require('node:path');
const rpc = require('vscode-jsonrpc/node');

async function main(binary, work) {
  const server = spawn(binary, ['app-server', '--listen', 'stdio://', '--standalone'], { stdio: ['pipe', 'pipe', 'inherit'] });
  const exited = new Promise((resolve) => server.on('exit', resolve));
  const connection = rpc.createMessageConnection(
    new rpc.StreamMessageReader(server.stdout),
    new rpc.StreamMessageWriter(server.stdin),
  );
  connection.onError(([error]) => { throw error; });
  const asked = [];
  let output = '';
  let completed = () => {};
  connection.onRequest('item/commandExecution/requestApproval', (params) => {
    asked.push(params.command);
    return { decision: params.command.includes('declined') ? 'decline' : 'accept' };
  });
  connection.onNotification('item/commandExecution/outputDelta', (params) => { output += params.delta; });
  connection.onNotification('turn/completed', (params) => completed(params.turn));
  connection.listen();

  const hello = await connection.sendRequest('initialize', { clientInfo: { name: 'vscode-jsonrpc', version: '1' } });
  console.log('server', hello.serverInfo, 'role', hello.role);
  connection.sendNotification('initialized');
  const { thread } = await connection.sendRequest('thread/start', { cwd: work });
  const run = async (script) => {
    const ended = new Promise((resolve) => { completed = resolve; });
    await connection.sendRequest('turn/start', { threadId: thread.id, input: [{ type: 'text', text: script }] });
    return ended;
  };

  let turn = await run('run git log --oneline\nsay Done.');
  console.log('accepted:', asked, turn.status, JSON.stringify(output));
  assert.strictEqual(turn.status, 'completed');
  assert.deepStrictEqual(asked, ['git log --oneline']);
  assert.match(output, /The first commit/);

  turn = await run('run touch declined\nsay It goes on. äöü');
  console.log('declined:', asked, turn.status);
  assert.strictEqual(turn.status, 'completed');
  assert.ok(!existsSync(path.join(work, 'declined')), 'the declined command did not run');
  const read = await connection.sendRequest('thread/read', { threadId: thread.id, includeTurns: true });
  const texts = read.thread.turns[1].items.filter((item) => item.type === 'agentMessage').map((item) => item.text);
  assert.deepStrictEqual(texts, ['It goes on. äöü']);

  await assert.rejects(connection.sendRequest('nowhere', {}), (error) => error.code === -32601);
  connection.end();
  server.stdin.end();
  assert.strictEqual(await exited, 0);
}

main(...process.argv.slice(2)).catch((error) => {
  console.error(error);
  process.exit(1);
});
