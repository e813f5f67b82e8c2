/* page_view.js - what is seen: the conversation, the list of conversations, settings, and the rivals of a token. */

const count = n => String(n).replace(/\B(?=(\d{3})+$)/g, ' ');
const speedOf = ({speed}) => speed ? `${speed < 10 ? speed.toFixed(1) : Math.round(speed)} tokens/s` : '';
const readable = text => text.replaceAll('\n', '⏎').replaceAll('\t', '⇥').replaceAll(' ', '␣') || '∅';
const percent = logprob => (100 * Math.exp(logprob)).toPrecision(3).replace(/e.*$/, '') + ' %';
const isTouch = matchMedia('(pointer: coarse)'), isNarrow = matchMedia('(max-width: 700px)');

/* ---- words to the user */

/* A message, with a button that tries again what failed. */
function trouble(text, retry) {
  byId('trouble').replaceChildren(text);
  if (retry) byId('trouble').append(' ', button('Try again', () => { trouble(''); retry(); }));
}
function note(text, ...more) {
  byId('note').hidden = !text;
  byId('note').replaceChildren(text, ' ', ...more, button('×', () => note(''), 'Close this message'));
}
function roomIsShort(is = true) { byId('full').hidden = !is; }
/* Read out once, when a reply has ended. */
function announce(node) { byId('said').textContent = nameOf(node) + ': ' + node.text; }
const nameOf = node => node.role === 'user' ? 'You' : props.model || 'Model';

/* Takes the focus back from what was done, not from where someone reads or writes. */
function focusBox() {
  const at = document.activeElement;
  if (!isTouch.matches && (!at || at === document.body || at.id === 'stop' || at.id === 'send')) byId('box').focus();
}

/* Browsers lend the clipboard to pages of this machine or over https; elsewhere a selection is copied. */
async function copy(text) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const area = make('textarea', {value: text, className: 'unseen'}), was = document.activeElement;
  document.body.append(area);
  area.select();
  document.execCommand('copy');
  area.remove();
  was?.focus();
}
function copyButton(text, name) {
  const b = button('Copy', async () => {
    b.textContent = await copy(text()).then(() => 'Copied', () => 'Not allowed');
    setTimeout(() => { b.textContent = 'Copy'; }, 1500);
  }, name);
  return b;
}

/* ---- tokens */

function shadeOf(logprob) {
  const p = Math.exp(logprob);
  return p > .8 ? 'p0' : p > .5 ? 'p1' : p > .25 ? 'p2' : p > .1 ? 'p3' : p > .02 ? 'p4' : 'p5';
}
const hasTokens = node => node.tokens.length > 0 &&
  node.tokens.map(t => t[0]).join('') === node.text.slice(node.given);

/* Adds to the tokens of a reply what is missing. The group is one stop of Tab; arrows move within it. */
function showTokens(to, node) {
  if (!to.drawn) {
    to.drawn = 0;
    to.tabIndex = 0;
    to.setAttribute('role', 'group');
    to.setAttribute('aria-label', 'Tokens: arrows move, Enter shows rivals');
    to.append(node.text.slice(0, node.given));
    to.onkeydown = e => walkTokens(to, node, e);
  }
  for (; to.drawn < node.tokens.length; to.drawn++) {
    const k = to.drawn, [text, logprob] = node.tokens[k];
    const span = make('span', {className: 'token ' + shadeOf(logprob)}, text);
    span.title = percent(logprob);
    span.onclick = () => { if (!getSelection().toString()) showRivals(node, k, span); };
    to.append(span);
  }
}
const STEPS = {ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1, Home: -Infinity, End: Infinity};
function walkTokens(to, node, e) {
  const all = to.querySelectorAll('.token'), now = [...all].indexOf(document.activeElement);
  if (e.key in STEPS) {
    const next = all[now < 0 ? 0 : Math.max(0, Math.min(all.length - 1, now + STEPS[e.key]))];
    next.tabIndex = -1;
    next.setAttribute('role', 'button');
    next.setAttribute('aria-label', readable(next.textContent) + ' ' + next.title);
    next.focus();
  } else if ((e.key === 'Enter' || e.key === ' ') && now >= 0) showRivals(node, now, all[now]);
  else return;
  e.preventDefault();
}

/* What could have stood at token k, from the same prompt and the tokens before it. */
let askedAt = null; // the token whose rivals are shown
async function showRivals(node, k, at) {
  const sheet = byId('rivals'), t = talk;
  if (running || !promptIds(t, node)) return;
  let found;
  try { found = await rivalsOf(t, node, k); } catch (e) { trouble(e.message, () => showRivals(node, k, at)); return; }
  if (!at.isConnected) return;
  const items = found.map(rival => {
    const b = button('', () => branch(t, node, k, rival), readable(rival.token) + ' ' + percent(rival.logprob));
    b.append(make('span', {className: 'piece'}, readable(rival.token)), make('span', {}, percent(rival.logprob)));
    b.className = rival.id === node.ids[k] ? 'rival chosen' : 'rival';
    return b;
  });
  const [text, logprob] = node.tokens[k];
  sheet.replaceChildren(make('p', {}, `Token ${k + 1}: ${readable(text)} ${percent(logprob)}`), ...items,
    button('Close', closeRivals));
  const r = at.getBoundingClientRect();
  askedAt = at;
  sheet.hidden = false;
  sheet.style.left = Math.max(0, Math.min(r.left, innerWidth - sheet.offsetWidth - 8)) + 'px';
  sheet.style.top = Math.max(0, Math.min(r.bottom + 4, innerHeight - sheet.offsetHeight - 8)) + 'px';
  items[0]?.focus();
}
function closeRivals() {
  const inside = byId('rivals').contains(document.activeElement);
  byId('rivals').hidden = true;
  if (!inside) return;
  if (askedAt?.isConnected && askedAt.tabIndex === -1) askedAt.focus();
  else byId('box').focus();
}

/* ---- the conversation */

function siblings(node, kids) {
  const list = kids[node.parent], n = list.length, k = list.indexOf(node), t = talk;
  if (n < 2) return [];
  const walk = by => () => { t.nodes[node.parent].pick = list[(k + by + n) % n].id; keepTalk(t); show(); };
  return [button('‹', walk(-1), 'Previous branch'), `${k + 1}/${n}`, button('›', walk(1), 'Next branch')];
}

function edit(node, article) {
  const t = talk, area = make('textarea', {value: node.text, rows: 4}), own = node.role === 'user';
  area.setAttribute('aria-label', 'Edited message');
  const save = () => {
    halt();
    const text = area.value, end = own ? {} : {given: text.length, end: 'stop'};
    const next = addNode(t, node.parent, {role: node.role, text, ...end});
    if (own) { reply(t, next); return; }
    keepTalk(t);
    show();
  };
  area.onkeydown = e => { if (e.key === 'Escape') { e.stopPropagation(); show(); byId('box').focus(); } };
  article.replaceChildren(area, make('div', {className: 'tools'},
    button(own ? 'Save and send' : 'Save', save), button('Cancel', () => show())));
  area.focus();
}

const ENDS = {length: 'Cut at its length.', stopped: 'Stopped.', broken: 'Broken off.'};
function countsOf(node) {
  const {prompt, cached} = node.counts ?? {}, made = node.ids.length, share = 100 * (prompt + made) / props.n_ctx;
  return [prompt ? `${count(prompt)} prompt` + (cached ? ` (${count(cached)} cached)` : '') : '',
    made ? `${count(made)} ${made === 1 ? 'token' : 'tokens'}` : '', speedOf(node),
    share ? `context ${share < 1 ? '< 1' : Math.round(share)} %` : ''].filter(Boolean).join(' · ');
}

/* Buttons under a message. `last`: it ends the way. */
function tools(node, article, kids, last) {
  const t = talk, own = node.role === 'user', now = isLive(node);
  const list = [...siblings(node, kids)];
  if (!own && last && !now) {
    if (node.text && node.end !== 'stop' || (node.given && node.given === node.text.length))
      list.push(button('Continue', () => goOn(t, node)));
    list.push(button('Regenerate', () => again(t, node)));
  }
  const offered = byId('trouble').firstElementChild; // to try again
  if (own && last && !running && !offered) list.push(button('Try again', () => reply(t, node)));
  if (!now) list.push(button('Edit', () => edit(node, article)), copyButton(() => node.text));
  return make('div', {className: 'tools'}, ...list);
}

function article(node, i, way, kids) {
  const a = make('article', {id: 'node' + node.id, className: node.role}), last = i === way.length - 1;
  a.setAttribute('aria-label', `${nameOf(node)}, message ${i + 1}`);
  a.append(make('div', {className: 'who'}, nameOf(node)),
    make('details', {className: 'thought', hidden: true}, make('summary', {}, 'Thoughts'), make('div')),
    make('div', {className: 'text'}), make('p', {className: 'wait'}));
  if (node.role === 'assistant' && !isLive(node)) {
    const line = [ENDS[node.end] ?? (node.end ? '' : ENDS.broken), countsOf(node)].filter(Boolean).join(' ');
    a.append(make('p', {className: 'counts'}, line));
  }
  a.append(tools(node, a, kids, last));
  return a;
}

/* Shows what a node has, in its article. */
function showNode(node) {
  const a = byId('node' + node.id), log = byId('log');
  if (!a || !a.querySelector('.text')) return; // it is being edited
  const low = log.scrollHeight - log.scrollTop - log.clientHeight < 60, text = a.querySelector('.text');
  const live = isLive(node), mine = node === running?.node, read = mine && running.reading;
  a.classList.toggle('busy', live);
  a.setAttribute('aria-busy', live);
  if (node.thought) {
    a.querySelector('.thought').hidden = false;
    a.querySelector('.thought div').textContent = node.thought;
  }
  a.querySelector('.wait').textContent = node.text || node.thought || !live || node.role === 'user' ? '' :
    read ? `reading ${count(read.processed)} of ${count(read.total)}` : 'waiting …';
  const how = node.role === 'user' ? 'raw' : settings.shade && hasTokens(node) ? 'tokens' : 'md';
  if (text.how !== how) {
    Object.assign(text, {how, parts: null, drawn: 0, className: 'text ' + how});
    text.replaceChildren();
    for (const name of ['role', 'aria-label', 'tabindex']) text.removeAttribute(name);
  }
  if (how === 'md') showMarkdown(text, node.text);
  else if (how === 'tokens') showTokens(text, node);
  else text.textContent = node.text;
  if (low) log.scrollTop = log.scrollHeight;
}

const EXAMPLES = {
  builtin: ['Once upon a time', 'The captain looked at the sea and said', 'It was a dark night, and the old house'],
  chat: ['Explain in five sentences how tides work.', 'Write a Python function that finds the longest word of a text.',
    'Compare tea and coffee in a small table.'],
  text: ['Once upon a time', 'The three laws of robotics are', 'A recipe for bread:']
};
function emptyPage() {
  const toy = props.model_path === 'builtin', list = toy ? EXAMPLES.builtin : chat ? EXAMPLES.chat : EXAMPLES.text;
  if (!props.n_ctx) return [];
  return [make('div', {className: 'empty'}, make('h2', {}, props.model),
    make('p', {}, `Context ${count(props.n_ctx)} tokens.`, chat ? '' : ' It continues texts: it has no chat template.'),
    toy ? make('p', {}, 'The built-in model is a toy of 5.5M parameters that writes like an old novel.') : '',
    make('div', {className: 'examples'}, ...list.map(text =>
      button(text, () => { byId('box').value = text; send(); }))))];
}

/* A button of a message, whatever message stands there; null for what is none. */
function placeOf(e) {
  const a = e.closest('article');
  return a && e.tagName === 'BUTTON' ? [...byId('log').children].indexOf(a) + (e.ariaLabel || e.textContent) : null;
}

/* The whole conversation; `down`: its end is to be seen, else what was seen stays. */
function show(down) {
  const kids = kidsOf(talk), way = path(), log = byId('log'), at = log.scrollTop;
  const low = log.scrollHeight - at - log.clientHeight < 60, focused = placeOf(document.activeElement);
  byId('rivals').hidden = true;
  byId('legend').hidden = !settings.shade;
  byId('shade').setAttribute('aria-pressed', settings.shade);
  log.replaceChildren(...way.length ? way.map((node, i) => article(node, i, way, kids)) : emptyPage());
  way.forEach(showNode);
  log.scrollTop = down || low ? log.scrollHeight : at;
  if (focused) [...log.querySelectorAll('button')].find(b => placeOf(b) === focused)?.focus({preventScroll: true});
  byId('stop').hidden = !running;
  byId('send').hidden = !!running;
  const last = way.findLast(n => n.role === 'assistant' && !isLive(n));
  byId('speed').textContent = last ? speedOf(last) : '';
  byId('system').value = talk.system;
}

/* ---- the list of conversations */

const titleOf = t => t.title || 'Untitled';
function openTalk(t) {
  halt();
  talk = t;
  keepInTab('talk', t.id);
  toggleList(false);
  trouble('');
  showPast();
  show(true);
}

function remove(t) {
  if (running?.talk === t) halt();
  deleteTalk(t);
  if (t === talk) openTalk(newTalk());
  roomIsShort(false);
  toggleList(false);
  showPast();
  note(`“${titleOf(t)}” is deleted.`, button('Undo', () => {
    kept.delete(t.id);
    keepTalk(t);
    note('');
    openTalk(t);
  }));
}

function rename(t, item) {
  const field = make('input', {value: titleOf(t)});
  const end = keep => {
    field.onblur = null;
    field.blur();
    if (keep && field.value.trim()) editTalk(t, {title: field.value.trim().slice(0, 200)});
    showPast();
    byId('list').querySelector('.now')?.focus();
  };
  field.setAttribute('aria-label', 'New name');
  field.onkeydown = e => {
    if (e.key === 'Enter') end(true);
    if (e.key === 'Escape') { e.stopPropagation(); end(false); }
  };
  field.onblur = () => end(true);
  item.replaceChildren(field);
  field.select();
}

/* The way that is shown, as a file of Markdown. */
function exportTalk(t) {
  const parts = path(t).map(n => `**${nameOf(n)}**\n\n${n.text}\n`);
  const text = [`# ${titleOf(t)}\n`, ...(t.system ? [`**System prompt**\n\n${t.system}\n`] : []), ...parts].join('\n');
  const href = URL.createObjectURL(new Blob([text], {type: 'text/markdown'}));
  make('a', {href, download: titleOf(t).replace(/[^\p{L}\p{N} _-]/gu, '').trim().slice(0, 60) + '.md'}).click();
  setTimeout(() => URL.revokeObjectURL(href), 10000);
}

function showPast() {
  const words = byId('search').value.trim().toLowerCase(), now = document.activeElement;
  if (byId('list').contains(now) && now.tagName === 'INPUT') return; // a name is being written
  const has = t => [titleOf(t), ...Object.values(t.nodes).map(n => n.text)].some(s => s?.toLowerCase().includes(words));
  const list = [...talks.values()].filter(has).sort((a, b) => b.at - a.at);
  byId('search').hidden = !talks.size;
  byId('list').replaceChildren(...list.map(t => {
    const title = titleOf(t), item = make('li'), open = button(title, () => openTalk(t));
    open.title = title;
    item.append(open);
    if (t === talk) {
      open.className = 'now';
      open.setAttribute('aria-current', 'true');
      item.append(make('div', {className: 'tools'}, button('Rename', () => rename(t, item), 'Rename ' + title),
        button('Export', () => exportTalk(t), 'Export ' + title)));
    }
    item.append(button('×', () => remove(t), 'Delete ' + title));
    return item;
  }));
  if (words && !list.length) byId('list').append(make('li', {className: 'help'}, 'Nothing found.'));
}

/* On a phone the list lies over the page: it takes the focus and gives it back. */
function toggleList(open) {
  const was = byId('past').classList.contains('open');
  if (was === open || (open && !isNarrow.matches)) return;
  byId('past').classList.toggle('open', open);
  byId('menu').setAttribute('aria-expanded', open);
  byId('page').inert = open;
  if (open) byId('new').focus();
  else byId('menu').focus();
}

/* ---- settings: the server's fields, with its values where one is empty */

const FIRST = ['temperature', 'top_p', 'top_k', 'min_p', 'max_tokens', 'seed'];
const OWN_HELP = {max_tokens: 'the longest answer; empty: to the end of the context'};
const inWords = name => name[0].toUpperCase() + name.slice(1).replaceAll('_', ' ');

function fieldOf(name, value) {
  const info = props.generation_fields?.[name] ?? {}, help = OWN_HELP[name] ?? info.doc ?? '';
  const input = info.words ? make('select', {}, new Option('none', ''), ...info.words.map(w => new Option(w, w))) :
    make('input', {placeholder: value ?? '', autocomplete: 'off', inputMode: 'decimal'});
  input.value = settings.fields[name] ?? '';
  input.onchange = () => changeSettings(s => { s.fields[name] = input.value.trim(); });
  const about = make('p', {className: 'help', id: 'help-' + name}, info.words ? help.replace(/:.*/, '') : help);
  input.setAttribute('aria-describedby', about.id);
  return make('div', {}, make('label', {}, inWords(name), input), about);
}

function showSettings() {
  const plain = props.default_generation_settings ?? {}, given = {...usual(), max_tokens: null};
  const told = Object.keys(plain).filter(n => given[n] !== plain[n]).map(n => `${n.replaceAll('_', ' ')} ${given[n]}`);
  byId('held').textContent = told.length ? `Where a field is empty, conversations use ${told.join(', ')}.` :
    'Where a field is empty, the server\'s value holds.';
  for (const id of ['main-fields', 'more-fields']) byId(id).replaceChildren();
  for (const name of [...FIRST, ...Object.keys(given).filter(n => !FIRST.includes(n))])
    if (name in given) byId(FIRST.includes(name) ? 'main-fields' : 'more-fields').append(fieldOf(name, given[name]));
}
