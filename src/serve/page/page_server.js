/* page_server.js - what is asked of the server, and how replies come in.

With a chat template the page talks to /v1/chat/completions, without one to /v1/completions, which continues the text.
Branches and Continue go on from ids, by /v1/completions. */

const GONE = 'The server does not answer.';
let props = {}, chat = false;
let running = null; // {stop, talk, node, reading}: the reply that comes in

/* ---- requests; the key is kept until its tab is closed */

let key = tab.getItem('inferflow.key') || '';
let door = null; // a promise while the dialog is open
function askForKey(why) {
  return door ??= new Promise((done, no) => {
    const d = byId('door');
    byId('door-why').textContent = why;
    byId('key').value = '';
    d.returnValue = '';
    d.onclose = () => {
      door = null;
      if (d.returnValue !== 'use') { no(new Error('This server asks for a key.')); return; }
      key = byId('key').value.trim();
      keepInTab('key', key);
      done();
    };
    d.showModal();
  });
}

/* A reply that is good; a refusal is thrown with its message. Waits while a model loads. */
async function ask(url, body, signal) {
  for (let waited = false;; waited = true) {
    const headers = body ? {'Content-Type': 'application/json'} : {}, used = key;
    if (used) headers.Authorization = 'Bearer ' + used;
    const r = await fetch(url, {method: body ? 'POST' : 'GET', headers, signal, body: body && JSON.stringify(body)})
      .catch(e => { throw e.name === 'AbortError' ? e : new Error(GONE); });
    if (r.ok && waited) trouble('');
    if (r.ok) return r;
    if (r.status === 401) {
      if (used === key) await askForKey(used ? 'This key is not accepted.' : 'This server asks for a key.');
      continue;
    }
    const e = (await r.json().catch(() => ({}))).error || {};
    if (e.code !== 'model_loading') throw new Error(e.message || 'The server answers with status ' + r.status + '.');
    trouble('The model is loading …');
    await new Promise(go => setTimeout(go, 1000));
    signal?.throwIfAborted();
  }
}

/* The JSON values of server-sent events. */
async function* events(reply) {
  const reader = reply.body.pipeThrough(new TextDecoderStream()).getReader();
  for (let rest = '';;) {
    const {value, done} = await reader.read()
      .catch(e => { throw e.name === 'AbortError' ? e : new Error(GONE); });
    if (done) throw new Error(GONE);
    const lines = (rest + value).split('\n');
    rest = lines.pop();
    for (const line of lines) {
      if (!line.startsWith('data: ')) continue;
      if (line === 'data: [DONE]') return;
      const value = JSON.parse(line.slice(6));
      if (value.error) throw new Error(value.error.message);
      yield value;
    }
  }
}

/* ---- what a request says */

/* How conversations are sampled where a field is empty: the model's files say it, or the server. */
const usual = () => ({...props.default_generation_settings, ...props.chat_generation_settings});

function sampling(more) {
  const given = {}, plain = props.default_generation_settings ?? {};
  if (!settings.fields.strategy) // which has values of its own
    for (const [name, value] of Object.entries(usual()))
      if (value !== plain[name] && value !== null) given[name] = value;
  for (const [name, value] of Object.entries(settings.fields))
    if (value !== '') given[name] = isNaN(value) ? value : Number(value);
  return {model: props.model, stream: true, stream_options: {include_usage: true}, return_progress: true,
    return_token_ids: true, ...given, ...more};
}

function conversation(t, way) {
  const said = way.map(n => ({role: n.role, content: n.text}));
  return t.system ? [{role: 'system', content: t.system}, ...said] : said;
}
/* Ids go on to the end of the context in a chat; a text to continue is a page at once. */
const bound = () => ({max_tokens: Number(settings.fields.max_tokens) || (chat ? props.n_ctx : 256)});

/* ---- what a reply brings */

/* Text of a chunk, cut at its tokens: [[text, logprob]]. `was`: of this stream, what came before. */
function tokensOf(choice, text, was) {
  const p = choice.logprobs;
  if (!p) return [];
  if (p.content) { // chat: bytes of each token
    const cut = p.content.map(t => [was.decoder.decode(new Uint8Array(t.bytes || []), {stream: true}), t.logprob]);
    if (cut.map(t => t[0]).join('') !== text && cut.length) { // some of it was no content
      cut.forEach(t => { t[0] = ''; });
      cut.at(-1)[0] = text;
    }
    return cut;
  }
  const letters = Array.from(text);
  was.base ??= p.text_offset[0];
  const from = p.text_offset.map(o => o - was.base - was.letters);
  was.letters += letters.length;
  const part = i => letters.slice(i ? Math.max(from[i], 0) : 0, from[i + 1]).join('');
  return p.tokens.map((_, i) => [part(i), p.token_logprobs[i]]);
}

function take(mine, chunk, was) {
  const {node} = mine, choice = chunk.choices[0], usage = chunk.usage;
  if (chunk.prompt_progress) mine.reading = chunk.prompt_progress;
  if (usage && !was.goesOn)
    node.counts = {prompt: usage.prompt_tokens, cached: usage.prompt_tokens_details?.cached_tokens ?? 0};
  if (!choice) return;
  const text = choice.text ?? choice.delta?.content ?? '';
  if (choice.delta?.reasoning_content) node.thought = (node.thought || '') + choice.delta.reasoning_content;
  if (choice.finish_reason) node.end = choice.finish_reason === 'length' ? 'length' : 'stop';
  if (choice.prompt_token_ids && !node.prompt) {
    setPrompt(mine.talk, node, choice.prompt_token_ids);
    node.counts = {prompt: choice.prompt_token_ids.length, cached: mine.reading?.cache ?? 0};
  }
  node.ids.push(...(choice.token_ids || []));
  const tokens = tokensOf(choice, text, was);
  if (!tokens.length && node.tokens.length) node.tokens.at(-1)[0] += text; // the rest of what was held back
  node.tokens.push(...tokens);
  node.text += text;
}

/* Streams a reply into a node. It is kept now, each second and at the end. */
async function run(t, node, url, body) {
  const mine = running = {stop: new AbortController(), talk: t, node, reading: null};
  const before = node.ids.length;
  const was = {letters: 0, decoder: new TextDecoder(), goesOn: before > 0};
  let first = 0, last = 0, drawn = false;
  const write = () => { node.beat = Date.now(); keepTalk(t); };
  trouble('');
  delete node.end;
  node.beat = Date.now();
  renewTalk(t);
  const clock = setInterval(write, 1000);
  show(true);
  try {
    for await (const chunk of events(await ask(url, body, mine.stop.signal))) {
      take(mine, chunk, was);
      if (chunk.choices.length) last = performance.now();
      first ||= last;
      if (!drawn) requestAnimationFrame(() => { drawn = false; if (running === mine && t === talk) showNode(node); });
      drawn = true;
    }
    node.end ??= 'stop';
  } catch (e) {
    node.end = e.name === 'AbortError' ? 'stopped' : 'broken';
    if (node.end === 'broken' && t === talk) trouble(e.message, () => tryAgain(t, node));
  }
  clearInterval(clock);
  const n = node.ids.length - before, rate = (n - 1) / ((last - first) / 1000);
  if (n > 1 && isFinite(rate)) node.speed = rate;
  write();
  if (running === mine) running = null;
  showPast();
  if (t !== talk) return;
  show();
  if (node.end !== 'stopped' && node.text) announce(node);
  if (!running) focusBox();
}

/* Ends what comes in; its node keeps what has come. */
function halt() {
  running?.stop.abort();
  running = null;
}

/* ---- replies */

/* A new reply to the last message of a way. */
function reply(t, parent, more) {
  const way = wayTo(t, parent), node = addNode(t, parent.id, {role: 'assistant'});
  const messages = conversation(t, way);
  if (chat) return run(t, node, 'v1/chat/completions', sampling({messages, logprobs: true, ...more}));
  const prompt = t.system + way.map(n => n.text).join('');
  return run(t, node, 'v1/completions', sampling({prompt, logprobs: 0, ...bound(), ...more}));
}

/* Another reply in place of one. */
function again(t, node) {
  const n = Object.values(t.nodes).filter(other => other.parent === node.parent).length, seed = settings.fields.seed;
  reply(t, t.nodes[node.parent], seed ? {seed: Number(seed) + n} : {});
}

/* After a failure: goes on where there is something to go on from, else asks once more. */
function tryAgain(t, node) {
  if (t !== talk || running) return;
  if (node.text) goOn(t, node);
  else reply(t, t.nodes[node.parent]);
}

/* Goes on from the ids of a reply; one that was written by hand gets them first. */
async function goOn(t, old) {
  const node = t.nodes[old.id] ?? old; // another tab may have written it
  let prompt = promptIds(t, node);
  try {
    if (!prompt) {
      const way = wayTo(t, node), text = t.system + way.map(n => n.text).join('');
      const r = chat ? await ask('apply-template', {messages: conversation(t, way), continue_final_message: true}) :
        await ask('tokenize', {prompt: text});
      prompt = (await r.json()).tokens;
      Object.assign(node, {given: node.text.length, tokens: [], ids: [], counts: {prompt: prompt.length, cached: 0}});
      setPrompt(t, node, prompt);
    }
  } catch (e) { trouble(e.message, () => goOn(t, node)); return; }
  run(t, node, 'v1/completions', sampling({prompt: [...prompt, ...node.ids], logprobs: 0, ...bound()}));
}

/* A reply up to its token k, then a rival, then what follows that: by ids. */
function branch(t, from, k, rival) {
  const tokens = [...from.tokens.slice(0, k), [rival.text, rival.logprob]], prompt = promptIds(t, from);
  const node = addNode(t, from.parent, {role: 'assistant', tokens, ids: [...from.ids.slice(0, k), rival.id],
    given: from.given, thought: from.thought, counts: from.counts, prompt: {of: from.id, keep: prompt.length, rest: []},
    text: from.text.slice(0, from.given) + tokens.map(p => p[0]).join('')});
  closeRivals();
  run(t, node, 'v1/completions', sampling({prompt: [...prompt, ...node.ids], logprobs: 0, ...bound()}));
}

/* The ten likeliest tokens where token k of a reply stands: [{id, token, text, logprob}]. */
async function rivalsOf(t, node, k) {
  const r = await ask('v1/completions', {model: props.model, prompt: [...promptIds(t, node), ...node.ids.slice(0, k)],
    max_tokens: 1, logprobs: 10, temperature: 0, ignore_eos: true, return_token_ids: true});
  const found = (await r.json()).choices[0].logprobs.top_tokens[0];
  return found.slice(0, 10).map(f => ({id: f.id, token: f.token, text: textOf(f.bytes), logprob: f.logprob}));
}

/* Bytes of a token as text; none where they end within a character: it comes with the token that completes it. */
function textOf(bytes) {
  try { return new TextDecoder('utf-8', {fatal: true}).decode(new Uint8Array(bytes || [])); } catch { return ''; }
}
