// One caller: what it has left, why it is denied, and what an operator can do about it. The
// key exists only in the memory of the page: the address never has it.
import { useEffect, useState } from 'preact/hooks'
import { call, type Schemas } from '../api'
import { attribute, count, duration } from '../format'
import { useLoad } from '../load'
import { Await, Badge, Empty, Failure, Field, Long, Page, Panel, Time } from '../parts/basic'
import { RuleLink } from '../parts/rule'
import { Table } from '../parts/table'
import { amend, href, type Route } from '../router'
import { Entries } from './audit'
import { identity, may } from '../session'
import { useStore } from '../store'

type State = Schemas['State']
type Denial = Schemas['Denial']
type Why = Schemas['Why']

interface Caller {
  api_key: string
  ip: string
  path: string
  method: string
  rule: string
}

// The address has the path and the method, which rules match, and the hash of the key.
export function Key({ route }: { route: Route }) {
  const [path, method, hash] = ['path', 'method', 'hash'].map((name) => route.query.get(name) ?? '') as [string, string, string]
  const [caller, setCaller] = useState<Caller>({ api_key: '', ip: '', path, method, rule: '*' })
  const [asked, ask] = useState<Caller>()
  const [found, setFound] = useState('') // the hash of the key that is asked for
  useEffect(() => setCaller((old) => ({ ...old, path, method })), [path, method])
  const set = (name: keyof Caller) => (e: Event) => setCaller({ ...caller, [name]: (e.currentTarget as HTMLInputElement).value })
  const submit = (e: Event) => {
    e.preventDefault()
    setFound('')
    ask({ ...caller })
    amend({ path: caller.path, method: caller.method, hash: undefined })
  }
  const name = (of: string) => {
    setFound(of)
    amend({ hash: of })
  }
  const linked = hash !== '' && hash !== found // by another page, or by a link that somebody shares
  return (
    <Page title="Key" lead="Look up a caller as it would send its request. Nothing is charged. The address of this page has the path, the method and a hash of the key, never the key.">
      <form class="row" onSubmit={submit} autocomplete="off">
        <Field label="API key"><input name="api_key" value={caller.api_key} spellcheck={false} autocomplete="off" onInput={set('api_key')} /></Field>
        <Field label="IP address"><input name="ip" value={caller.ip} spellcheck={false} autocomplete="off" placeholder="192.0.2.1" onInput={set('ip')} /></Field>
        <Field label="Path"><input name="path" value={caller.path} spellcheck={false} autocomplete="off" placeholder="/v1/orders" onInput={set('path')} /></Field>
        <Field label="Method"><input name="method" value={caller.method} spellcheck={false} autocomplete="off" placeholder="GET" onInput={set('method')} /></Field>
        <div class="actions"><button type="submit" class="primary" disabled={!caller.api_key && !caller.ip}>Look up</button></div>
      </form>
      {linked && <Listed key={hash} hash={hash} path={path} method={method} />}
      {!linked && !asked && <Empty>Give the API key, the IP address, or both. <a href={href(['top'])}>Top</a> lists the keys that are denied most.</Empty>}
      {!linked && asked && <Found key={JSON.stringify(asked)} caller={asked} name={name} />}
    </Page>
  )
}

// Listed shows a key that a table has linked, of which this browser has only the hash.
function Listed({ hash, path, method }: { hash: string; path: string; method: string }) {
  const denials = useLoad(async (signal) => (await call('get', '/v1/denied', { query: { hash, limit: 100 }, signal })).data.items, [hash], 5)
  return (
    <>
      <Panel title={`Denials of ${denials.data?.[0]?.key ?? 'a key'}`} note={`hash ${hash}`}>
        <p class="quiet">Keys are shortened here. To see the allowance of this one or to change something, give the whole key above.</p>
        <Await of={denials} what="The denials were not loaded">{(list) => <Denials list={list} />}</Await>
      </Panel>
      {(path || method) && <Matching caller={{ api_key: '', ip: '', path, method, rule: '*' }} />}
      <Done hash={hash} />
    </>
  )
}

// bodyOf has the path and the method too: rules may count by them. The hash of the key is of the API
// key and the address alone.
function bodyOf(caller: Caller): Schemas['Key'] {
  return { rule: caller.rule, attributes: attributesOf(caller) }
}

function attributesOf(caller: Caller): Record<string, string> {
  return Object.fromEntries((['api_key', 'ip', 'path', 'method'] as const).filter((name) => caller[name]).map((name) => [name, caller[name]]))
}

function Found({ caller, name }: { caller: Caller; name: (hash: string) => void }) {
  const writes = may('operator', useStore(identity))
  const why = useLoad(async (signal) => (await call('post', '/v1/why', { body: bodyOf(caller), signal })).data, [caller], 5)
  const hash = why.data?.hash
  useEffect(() => { if (hash) name(hash) }, [hash])
  const [said, say] = useState('')
  const [changes, setChanges] = useState(0)
  const done = (text: string) => {
    say(text)
    setChanges(changes + 1)
    why.reload()
  }
  return (
    <Await of={why} what="The key was not looked up">
      {(found) => (
        <>
          {said && <p class="box good" role="status">{said}</p>}
          <Panel title="Limits" note={found.key}>
            <Lists of={found} />
            <Limits name="limits" caption="Limits of this caller" list={found.limits} hint={found.hint} />
            {found.canary && <InCanary of={found.canary} />}
          </Panel>
          {writes && <Actions caller={caller} found={found} done={done} />}
          <Panel title="Last denials" note="by this node">
            <Denials list={found.denials} />
          </Panel>
          <Matching key={changes} caller={caller} />
          {found.hash && <Done key={changes} hash={found.hash} />}
        </>
      )}
    </Await>
  )
}

function Done({ hash }: { hash: string }) {
  return <Panel title="What was done to it" note="on this node"><Entries filter={{ key_hash: hash }} empty="Nobody has changed this key since this process started. Older changes are in the log of the node." /></Panel>
}

function Matching({ caller }: { caller: Caller }) {
  return <Panel title="Rules that match" note="what each rule does with such a request"><Explained caller={caller} /></Panel>
}

type ExplainedRule = Schemas['ExplainedRule']
type Decides = Schemas['Explained']['list']

function Explained({ caller }: { caller: Caller }) {
  const explained = useLoad(async (signal) => (await call('post', '/v1/explain', { body: { attributes: attributesOf(caller) }, signal })).data, [JSON.stringify(caller)])
  const columns = (list: Decides) => [
    { title: 'Rule', value: (r: ExplainedRule) => r.rule, show: (r: ExplainedRule) => <RuleLink id={r.rule} /> },
    { title: 'Mode', value: (r: ExplainedRule) => r.mode },
    { title: 'Does', value: (r: ExplainedRule) => doesOf(r, list) },
    { title: 'Limits', value: (r: ExplainedRule) => r.words ?? '' },
    { title: 'From', value: sourceOf },
  ]
  return (
    <Await of={explained} what="The rules were not explained">
      {({ list, rules }) => <Table name="explained" caption="What the rules do with such a request" rows={rules.filter((r) => r.matches)} columns={columns(list)} keyOf={(r) => r.rule} empty={`No rule matches a request ${caller.path ? 'with this path and method' : 'without a path. Give the path'}.`} />}
    </Await>
  )
}

function doesOf(r: ExplainedRule, list: Decides): string {
  if (list !== 'none') return `does not count: the ${list} list decides`
  if (r.denies) return 'denies all'
  if (r.counts) return `counts by ${(r.by ?? []).join(', ') || 'nothing'}${r.cost !== undefined && r.cost !== 1 ? `, costs ${count(r.cost)}` : ''}`
  if (r.missing?.length) return `does not count: the request has no ${r.missing.join(', ')}`
  return `does not count${r.why ? `: ${r.why}` : ''}`
}

function sourceOf(r: ExplainedRule): string {
  if (r.override) return r.temporary ? 'a temporary override' : 'an override'
  return [r.source, r.tier && `tier ${r.tier}`].filter(Boolean).join(', ')
}

function Lists({ of }: { of: Why }) {
  if (!of.lists?.length) return null
  return (
    <ul>
      {of.lists.map((l, i) => (
        <li key={i}>
          <Badge kind={l.deny ? 'bad' : 'good'}>{l.deny ? 'denied' : 'allowed'} by a list</Badge> <code>{l.match}</code>
          {l.rule && <> of rule {l.rule}</>}{l.until && <> until <Time at={l.until} /></>}{l.reason && <>: <Long text={l.reason} /></>}
        </li>
      ))}
    </ul>
  )
}

// InCanary shows what the caller has under the rules that a share of the callers tries.
function InCanary({ of }: { of: NonNullable<Why['canary']> }) {
  const decides = of.decides === undefined ? `Give the ${attribute(of.by)} to see whether its rules decide.` : of.decides ? 'Its rules decide about this caller, and not those above.' : 'Its rules do not decide about this caller, but those above.'
  return (
    <>
      <h3><a href={href(['canary'])}>Canary {of.version}</a></h3>
      <p>{decides}{of.keyless && ' This is about the requests of the address without an API key.'}</p>
      <Limits name="canary" caption="Limits of this caller under the canary" list={of.limits} />
    </>
  )
}

function Limits({ name, caption, list, hint }: { name: string; caption: string; list: State[]; hint?: string | undefined }) {
  const columns = [
    { title: 'Rule', value: (s: State) => s.rule ?? '', show: (s: State) => <RuleLink id={s.rule ?? ''} /> },
    { title: 'Limit', wide: true, value: (s: State) => s.words, show: (s: State) => <span title={s.name}>{s.words}</span> },
    { title: 'Left', value: (s: State) => s.remaining, show: (s: State) => <Left of={s} /> },
    { title: 'Full again', unit: 'ms', value: (s: State) => s.reset_after_ms, show: (s: State) => (s.reset_after_ms ? `in ${duration(s.reset_after_ms)}` : 'now') },
    { title: 'State', value: (s: State) => verdict(s, list), show: (s: State) => <Verdict of={verdict(s, list)} /> },
  ]
  return <Table name={name} caption={caption} rows={list} columns={columns} keyOf={(s) => `${s.rule} ${s.name}`} empty={hint ? `No rule counts this caller: ${hint}` : 'No rule counts this caller. Give the address or the path too, if a rule counts by them.'} />
}

function Left({ of }: { of: State }) {
  return <>{count(of.remaining)} <span class="quiet">of {count(of.limit)}</span> <meter min={0} max={of.limit || 1} low={of.limit / 5} value={of.remaining} aria-label={`${of.remaining} of ${of.limit} left`} /></>
}

// verdict says what a limit does with the next request, and why. A rule of which one limit is enough
// denies by all of them together.
function verdict(s: State, all: State[]): string {
  if (s.listed) return s.listed === 'deny' ? 'on the deny list' : 'on the allow list'
  if (s.remaining <= 0) {
    if (s.shadow) return 'nothing left, but shadow mode denies nothing'
    if (s.any && all.some((o) => o.any && o.rule === s.rule && o.remaining > 0)) return 'nothing left, but another limit admits'
    return 'denied: nothing left'
  }
  return s.degraded ? 'store unavailable' : 'allowed'
}

function Verdict({ of }: { of: string }) {
  return <Badge kind={of === 'allowed' || of === 'on the allow list' ? 'good' : of.startsWith('nothing left') ? 'warn' : 'bad'}>{of}</Badge>
}

export function Denials({ list }: { list: Denial[] }) {
  const columns = [
    { title: 'Time', value: (d: Denial) => d.time, show: (d: Denial) => <Time at={d.time} /> },
    { title: 'Rule', value: (d: Denial) => d.rule || 'deny list', show: (d: Denial) => (d.rule ? <RuleLink id={d.rule} /> : 'deny list') },
    { title: 'Why', value: reasonOf, wide: true },
    { title: 'Path', wide: true, value: (d: Denial) => d.path ?? '', show: (d: Denial) => <code>{d.path}</code> },
    { title: 'Surface', value: (d: Denial) => d.surface },
    { title: 'Key', value: (d: Denial) => d.key, show: (d: Denial) => <code class="key" title={`hash ${d.hash}`}>{d.key}</code> },
  ]
  return <Table name="denials" keys caption="Denials" rows={list} columns={columns} keyOf={(d) => d.time + d.rule + d.hash} empty="This node has denied nothing of this key lately. Other nodes may have: each remembers its own denials." />
}

function reasonOf(d: Denial): string {
  if (d.list) return 'on the deny list'
  if (d.penalty) return { cool_down: 'in the cool-down of a penalty', ban: 'banned by a penalty', hot_key: 'a hot key' }[d.penalty]
  if (d.degraded) return 'the store did not answer'
  if (d.never) return `costs ${count(d.cost)} of a limit of ${count(d.limit ?? 0)}, which never fits`
  return `costs ${count(d.cost)}, had ${count(d.remaining ?? 0)} of ${count(d.limit ?? 0)} left${d.retry_after_ms ? `, again after ${duration(d.retry_after_ms)}` : ''}`
}

type Action = 'ban' | 'unban' | 'grant' | 'reset' | 'override'
const actions: [Action, string][] = [['ban', 'Ban…'], ['unban', 'Unban…'], ['grant', 'Grant units…'], ['reset', 'Reset…'], ['override', 'Temporary limit…']]

function Actions({ caller, found, done }: { caller: Caller; found: Why; done: (said: string) => void }) {
  const [open, setOpen] = useState<Action>()
  const finish = (said: string) => {
    setOpen(undefined)
    done(said)
  }
  return (
    <Panel title="Actions" note={caller.api_key ? 'on the API key' : 'on the IP address'}>
      <div class="actions">{actions.map(([name, title]) => <button key={name} type="button" aria-expanded={open === name} onClick={() => setOpen(open === name ? undefined : name)}>{title}</button>)}</div>
      {open && <ActionForm key={open} action={open} caller={caller} found={found} done={finish} />}
    </Panel>
  )
}

interface Input {
  rule: string
  for: string
  units: string
  limit: string
  reason: string
}

function ActionForm({ action, caller, found, done }: { action: Action; caller: Caller; found: Why; done: (said: string) => void }) {
  const ofRule = action !== 'ban' && action !== 'unban'
  const shared = useLoad(async (signal): Promise<string[]> => (ofRule ? sharedRules(caller, signal) : []), [])
  const rules = [...new Map(found.limits.map((l) => [l.rule ?? '', l.words]))].filter(([r]) => r && !shared.data?.includes(r))
  const [input, setInput] = useState<Input>({ rule: '', for: '1h', units: '100', limit: '500/m', reason: '' })
  const [error, setError] = useState<Error>()
  const [busy, setBusy] = useState(false)
  const rule = input.rule || (rules.length === 1 ? rules[0]![0] : '')
  const field = (name: keyof Input) => ({ name, value: input[name], onInput: (e: Event) => setInput({ ...input, [name]: (e.currentTarget as HTMLInputElement).value }) })
  const submit = (e: Event) => {
    e.preventDefault()
    setBusy(true)
    setError(undefined)
    run(action, caller, { ...input, rule }).then(done, (refused: Error) => { setError(refused); setBusy(false) })
  }
  if (shared.data && ofRule && rules.length === 0) return <Empty>No rule has a count of this caller alone.</Empty>
  return (
    <form class="row" onSubmit={submit} autocomplete="off">
      {ofRule && (
        <Await of={shared} what="The rules were not loaded, and nothing was changed">
          {(left) => (
            <Field label="Rule" {...(left.length > 0 ? { hint: `Without ${left.join(', ')}: all callers share that count.` } : {})}>
              <select {...field('rule')} value={rule} required>
                {rules.length > 1 && <option value="">Choose a rule</option>}
                {rules.map(([r, words]) => <option key={r} value={r}>{r}: {words}</option>)}
              </select>
            </Field>
          )}
        </Await>
      )}
      {action === 'grant' && <Field label="Units"><input type="number" min={1} required {...field('units')} /></Field>}
      {action === 'override' && <Field label="Limit" hint="Such as 500/m."><input required {...field('limit')} /></Field>}
      {(action === 'ban' || action === 'override') && <Field label="For" hint={action === 'ban' ? 'Such as 90m or 30d. Empty: until an unban.' : 'Such as 90m or 30d.'}><input required={action === 'override'} {...field('for')} /></Field>}
      <Field label="Reason"><input required maxLength={500} {...field('reason')} /></Field>
      <div class="actions"><button type="submit" class={action === 'ban' ? 'danger' : 'primary'} disabled={busy || !shared.data}>{verbs[action]}</button></div>
      {error && <Failure what={`${verbs[action]}: not done`} error={error} />}
    </form>
  )
}

// sharedRules returns the rules that count a request by its path and its method alone, or by nothing:
// their count is that of all callers.
async function sharedRules(caller: Caller, signal: AbortSignal): Promise<string[]> {
  const { data } = await call('post', '/v1/why', { body: bodyOf({ ...caller, api_key: '', ip: '' }), signal })
  return [...new Set(data.limits.map((l) => l.rule ?? ''))]
}

const verbs: Record<Action, string> = { ban: 'Ban', unban: 'Unban', grant: 'Grant', reset: 'Reset', override: 'Set the limit' }

async function run(action: Action, caller: Caller, { rule, for: time, units, limit, reason }: Input): Promise<string> {
  const key = caller.api_key || caller.ip
  const body = { ...bodyOf(caller), rule }
  switch (action) {
    case 'ban':
      await call('post', '/v1/ban', { body: { key, reason, ...(time ? { for: time } : {}) }, reason })
      return time ? `The key is banned for ${time}.` : 'The key is banned until an unban.'
    case 'unban':
      await call('post', '/v1/unban', { body: { key }, reason })
      return 'The key is not banned any more.'
    case 'grant':
      await call('post', '/v1/grant', { body: { ...body, units: Number(units) }, reason })
      return `${count(Number(units))} units were granted in rule ${rule}.`
    case 'reset':
      await call('post', '/v1/reset', { body, reason })
      return `The key has its full allowance of rule ${rule} again.`
    case 'override':
      await call('put', '/rules/{id}/override/', { path: { id: rule }, body: JSON.stringify(limit), query: { key, for: time }, reason })
      return `The key has the limit ${limit} in rule ${rule} for ${time}.`
  }
}
