/* page_keep.js - what stays in this browser: settings and conversations.

A conversation is a tree: a node is a message, its children are what may follow. Editing, regenerating and choosing a
rival of a token make siblings; arrows walk them. Each conversation lies under a name of its own in localStorage, and is
read and joined with what other tabs have written before it is written again: nodes have ids and are never changed by
two tabs at once, so their union loses nothing. A reply keeps the ids of its tokens, and those of its prompt as what
they add to an earlier reply, so that a branch goes on from exactly these and storage grows with the text. */
'use strict';

const byId = id => document.getElementById(id);
/* An element with properties and children; strings become text. */
function make(tag, properties, ...children) {
  const e = Object.assign(document.createElement(tag), properties);
  e.append(...children);
  return e;
}
function button(text, onclick, name) {
  const b = make('button', {type: 'button', onclick}, text);
  if (name) b.setAttribute('aria-label', name);
  return b;
}

/* A browser may refuse to keep anything: then what is written is told as storage that is full. */
function storage(name) {
  try { return window[name]; } catch { return {getItem: () => null, setItem() { throw Error(name); }, removeItem() {}}; }
}
const disk = storage('localStorage'), tab = storage('sessionStorage');
function keepInTab(name, value) {
  try { tab.setItem('inferflow.' + name, value); } catch { /* it is asked again after a reload */ }
}

const TALK = 'inferflow.talk.';
const LONG_AGO = 4000; // ms after which a reply that nobody goes on writing counts as broken off

function load(name, otherwise) {
  try { return JSON.parse(disk.getItem('inferflow.' + name)) ?? otherwise; } catch { return otherwise; }
}
const loadSettings = () => ({fields: {}, shade: false, ...load('settings', {})});
let settings = loadSettings();
/* Another tab may have changed another setting meanwhile. */
function changeSettings(change) {
  settings = loadSettings();
  change(settings);
  try { disk.setItem('inferflow.settings', JSON.stringify(settings)); } catch { roomIsShort(); }
}

/* ---- the tree

talk: {id, title, system, edited, at, nodes}; edited: when title or system were, at: when it went on last.
node: {id, parent, at, pick, role, text, given, thought, tokens, ids, prompt, counts, speed, end, beat}
  pick: the child that is shown; given: characters that no token of ours made; tokens: [[text, logprob]];
  prompt: {of, keep, rest}: the first `keep` ids of the reply `of`, its prompt's included, then these;
  end: why a reply ended: stop, length (of the model), stopped (by hand), broken; beat: when it was written last. */

const newId = () => Array.from(crypto.getRandomValues(new Uint32Array(3)), n => n.toString(36)).join('');
const newTalk = () => ({id: newId(), title: '', system: '', edited: 0, at: 0,
  nodes: {root: {id: 'root', parent: '', at: 0}}});

let lastMoment = 0; // nodes of one tab have an order
function addNode(t, parent, more) {
  lastMoment = Math.max(Date.now(), lastMoment + 1);
  const node = {id: newId(), parent, at: lastMoment, text: '', given: 0, tokens: [], ids: [], ...more};
  t.nodes[node.id] = node;
  t.nodes[parent].pick = node.id;
  return node;
}

/* A reply that failed before its first token is not seen. */
const isSeen = n => n.role === 'user' || n.text || n.thought || n.end === 'stop' || n.end === 'length' || isLive(n);
/* The children of all nodes, oldest first. */
function kidsOf(t) {
  const kids = {};
  for (const n of Object.values(t.nodes)) if (n.parent && isSeen(n)) (kids[n.parent] ??= []).push(n);
  for (const list of Object.values(kids)) list.sort((a, b) => a.at - b.at || (a.id < b.id ? -1 : 1));
  return kids;
}
const picked = (node, list) => list?.find(n => n.id === node.pick) ?? list?.at(-1);

/* The nodes on the chosen way from the root, without it. */
function path(t = talk) {
  const kids = kidsOf(t), way = [];
  for (let n = picked(t.nodes.root, kids.root); n; n = picked(n, kids[n.id])) way.push(n);
  return way;
}
/* The nodes from the root to this one. */
function wayTo(t, node) {
  const way = [];
  for (let n = node; n && n.parent; n = t.nodes[n.parent]) way.unshift(n);
  return way;
}

/* Ids of the prompt of a reply; null where they are not known. */
function promptIds(t, node) {
  const p = node.prompt;
  if (!p?.of) return p?.rest ?? null;
  const from = t.nodes[p.of], ids = from && promptIds(t, from);
  return ids && [...ids, ...from.ids].slice(0, p.keep).concat(p.rest);
}
function setPrompt(t, node, ids) {
  const near = Object.values(t.nodes).filter(n => n.parent === node.parent && n !== node && n.prompt);
  const from = near[0] ?? wayTo(t, node).findLast(n => n !== node && n.prompt);
  const old = from && promptIds(t, from);
  if (!old) { node.prompt = {rest: ids}; return; }
  old.push(...from.ids);
  let keep = 0;
  while (keep < ids.length && ids[keep] === old[keep]) keep++;
  node.prompt = {of: from.id, keep, rest: ids.slice(keep)};
}

/* ---- keeping */

function pack(t) {
  const nodes = Object.values(t.nodes).map(({tokens, ...n}) => tokens?.length ?
    {...n, cuts: tokens.map(p => p[0].length), odds: tokens.map(p => Math.round(p[1] * 1000) / 1000)} : n);
  return JSON.stringify({...t, nodes});
}
/* null where it is no conversation. */
function unpack(text) {
  try {
    const t = JSON.parse(text), nodes = {};
    for (const {cuts = [], odds = [], ...n} of t.nodes) {
      let at = n.given ?? 0;
      n.tokens = cuts.map((size, k) => [n.text.slice(at, at += size), odds[k]]);
      nodes[n.id] = n;
    }
    return nodes.root && {...t, nodes};
  } catch { return null; }
}

const talks = new Map(); // by id
let talk = newTalk();
const kept = new Set(); // ids of conversations that were written or read here: where one is gone, it was deleted

/* Takes from another copy what this one lacks. */
function join(t, other) {
  if (other.edited > t.edited) Object.assign(t, {title: other.title, system: other.system, edited: other.edited});
  t.at = Math.max(t.at, other.at);
  for (const n of Object.values(other.nodes)) {
    const mine = t.nodes[n.id];
    if (!mine) t.nodes[n.id] = n;
    else if (mine !== running?.node && (n.beat ?? 0) > (mine.beat ?? 0)) t.nodes[n.id] = {...n, pick: mine.pick};
    else mine.pick ||= n.pick;
  }
}

function keepTalk(t) {
  const name = TALK + t.id, old = disk.getItem(name), other = old && unpack(old);
  if (!old && kept.has(t.id)) return; // deleted, perhaps in another tab
  if (other) join(t, other);
  talks.set(t.id, t);
  try {
    disk.setItem(name, pack(t));
    kept.add(t.id);
    roomIsShort(false);
  } catch { roomIsShort(); }
}
/* A conversation that goes on is kept again, even if another tab has deleted it. */
function renewTalk(t) {
  t.at = Date.now();
  if (disk.getItem(TALK + t.id) === null) kept.delete(t.id);
  keepTalk(t);
}
function deleteTalk(t) {
  talks.delete(t.id);
  kept.add(t.id);
  disk.removeItem(TALK + t.id);
}
function editTalk(t, change) {
  Object.assign(t, change, {edited: Date.now()});
  if (talks.has(t.id)) keepTalk(t);
}

const isLive = node => node === running?.node || (!node.end && Date.now() - (node.beat ?? 0) < LONG_AGO);

/* Conversations of versions that kept them all in one list, by places of nodes. */
function readOldTalks() {
  const old = load('talks', null);
  if (!Array.isArray(old)) return;
  let whole = true;
  old.forEach((from, i) => {
    const t = {...newTalk(), id: 'old' + i, title: from.title, system: settings.system ?? '', at: 1 + old.length - i};
    const name = k => k ? 'node' + k : 'root';
    from.nodes.forEach(({kids, pick, prompt_ids, cut, ...n}, k) => {
      const node = {...n, id: name(k), parent: name(n.parent), at: k, given: 0, end: cut ? 'length' : 'stop'};
      if (k) t.nodes[node.id] = node;
      if (kids.length) t.nodes[name(k)].pick = name(kids[pick]);
      if (prompt_ids?.length) setPrompt(t, node, prompt_ids);
    });
    keepTalk(t);
    whole &&= kept.has(t.id);
  });
  if (whole) disk.removeItem('inferflow.talks');
}

function readTalks() {
  for (const name of Object.keys(disk).filter(n => n.startsWith(TALK))) {
    const t = unpack(disk.getItem(name));
    if (t) talks.set(t.id, t);
    if (t) kept.add(t.id);
  }
  readOldTalks();
}
