import { useRef, useState } from 'preact/hooks'
import { call, callText, type Schemas } from '../api'
import { drafts } from '../draft'
import { count, many, rate, share } from '../format'
import { deniedShare, requestsOf, shadowShare, useLive } from '../live'
import { useLoad } from '../load'
import { Await, Badge, Choice, Copy, Empty, Field, Long, Page, Panel, Tile, Time } from '../parts/basic'
import { Change } from '../parts/change'
import { For } from '../parts/role'
import { SecondsChart } from '../parts/seconds'
import { Table, asText, type Column } from '../parts/table'
import { amend, go, href, useRoute, type Route } from '../router'
import { identity, may } from '../session'
import { useStore } from '../store'
import { Edit, newRuleTarget, ruleTarget, setTarget } from './edit'
import { TopKeys } from './top'

type Rule = Schemas['RuleInWords']
type Order = 'position' | 'id' | 'mode' | 'requests' | 'denied' | 'share' | 'shadow' | 'changed'

// The server selects, sorts and divides the rules: there can be 10,000.
const pageSize = 100

export function RulesPages({ route }: { route: Route }) {
  const [id, action] = route.path.slice(1)
  if (id === undefined) return <Rules route={route} />
  if (id === '*' && action === 'edit') return <For role="admin" title="Edit all rules" back={['rules']}><Edit key="*" target={setTarget} /></For>
  if (id === '*' && action === 'new') return <For role="operator" title="New rule" back={['rules']}><NewRule /></For>
  if (action === 'edit') return <For role="operator" title={`Edit rule ${id}`} back={['rules', id]}><Edit key={id} target={ruleTarget(id)} /></For>
  if (action === 'new') return <For role="operator" title={`New rule ${id}`} back={['rules']}><Edit key={`new ${id}`} target={newRuleTarget(id)} /></For>
  if (action === 'delete') return <For role="operator" title={`Delete rule ${id}`} back={['rules', id]}><DeleteRule id={id} /></For>
  return <OneRule id={id} />
}

function Rules({ route }: { route: Route }) {
  const who = useStore(identity)
  const version = useLoad(async (signal) => (await call('get', '/rules/history', { query: { n: 1 }, signal })).data, [], 10)
  const newest = version.data?.versions.find((v) => v.version === version.data?.current)
  return (
    <Page title="Rules" lead={version.data && <Version of={version.data.current} newest={newest} />}
      actions={<>
        <a class="button" href={href(['tiers'])}>Tiers</a>
        {may('operator', who) && <a class="button" href={href(['rules', '*', 'new'])}>New rule…</a>}
        {may('admin', who) && <a class="button" href={href(['rules', '*', 'edit'])}>Edit all rules…</a>}
      </>}>
      {may('operator', who) && <Drafts />}
      <List q={route.query.get('q') ?? ''} sort={(route.query.get('sort') ?? 'position') as Order} offset={Number(route.query.get('from')) || 0} since={newest?.time} />
    </Page>
  )
}

const orders: readonly (readonly [Order, string])[] = [
  ['position', 'as in the files'], ['id', 'by id'], ['mode', 'by mode'], ['requests', 'most requests'], ['denied', 'most denied'], ['share', 'greatest denied share'], ['shadow', 'most shadow denials'], ['changed', 'changed last'],
]

function List({ q, sort, offset, since }: { q: string; sort: Order; offset: number; since: string | undefined }) {
  const who = useStore(identity)
  const found = useLoad(async (signal) => (await call('get', '/v1/rules', { query: { q, sort, limit: pageSize, offset }, signal })).data, [q, sort, offset], 5)
  // The rules that were found last stay while others are searched: the page would jump at each letter.
  const last = useRef<typeof found.data>(undefined)
  last.current = found.data ?? (found.error ? undefined : last.current)
  const known = last.current
  return (
    <>
      <div class="toolbar">
        <input type="search" aria-label="Search the rules" placeholder="Search ids, conditions, limits" value={q} onInput={(e) => amend({ q: e.currentTarget.value, from: undefined })} />
        <label>Sorted <select value={sort} onChange={(e) => amend({ sort: e.currentTarget.value, from: undefined })}>
          {orders.map(([name, title]) => <option key={name} value={name}>{title}</option>)}
        </select></label>
        <span class="quiet" role="status">{known && (known.found === known.total ? many(known.total, 'rule') : `${count(known.found)} of ${many(known.total, 'rule')}`)}</span>
        {known && <Copy label={known.found > pageSize ? `Copy these ${known.rules.length}` : 'Copy'} text={() => asText(known.rules, copied)} />}
        {since && <span class="quiet">in force <Time at={since} relative /></span>}
      </div>
      <Await of={{ ...found, data: known }} what="The rules were not loaded">
        {(page) => {
          if (page.total === 0) return <Empty>There are no rules, so every request is allowed. {may('operator', who) ? 'Add the first one with “New rule…”.' : 'An operator can add one.'}</Empty>
          if (page.found === 0) return <Empty>No rule contains “{q}”. <button type="button" class="link" onClick={() => amend({ q: undefined })}>Show all</button></Empty>
          return <><RulesTable rules={page.rules} /><Pager offset={offset} found={page.found} /></>
        }}
      </Await>
    </>
  )
}

// copied are the columns of a copy of the list.
const copied: Column<Rule>[] = [
  { title: 'Rule', value: (r) => r.id },
  { title: 'Mode', value: (r) => r.mode },
  { title: 'Matches', value: conditionsOf },
  { title: 'Limit', value: limitsOf },
  { title: 'Requests', unit: 'a second', value: (r) => requestsOf(r.rates) },
  { title: 'Denied', unit: '%', value: (r) => 100 * deniedShare(r.rates) },
  { title: 'Denied in shadow mode', unit: '%', value: (r) => 100 * shadowShare(r.rates) },
  { title: 'Overrides', value: (r) => r.overrides ?? 0 },
  { title: 'Changed', value: (r) => r.changed?.time ?? '' },
]

function RulesTable({ rules }: { rules: Rule[] }) {
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="Rules">
      <table class="plain">
        <caption class="unseen">Rules</caption>
        <thead><tr><th scope="col">Rule</th><th scope="col">Mode</th><th scope="col">Matches</th><th scope="col">Limit</th><th scope="col" class="number">Requests</th><th scope="col" class="number">Denied</th><th scope="col" class="number">Overrides</th><th scope="col">Changed</th></tr></thead>
        <tbody>
          {rules.map((r) => (
            <tr key={r.id}>
              <td class="text"><a href={href(['rules', r.id])}>{r.id}</a></td>
              <td><Mode of={r} /></td>
              <td class="text"><Long text={conditionsOf(r)} /></td>
              <td class="wide">{limitsOf(r)}</td>
              <td class="number">{rate(requestsOf(r.rates))}</td>
              <td class="number">{share(r.mode === 'shadow' ? shadowShare(r.rates) : deniedShare(r.rates))}{r.mode === 'shadow' && <span class="quiet"> shadow</span>}</td>
              <td class="number">{count(r.overrides ?? 0)}</td>
              <td>{r.changed ? <a href={href(['versions', String(r.changed.version)])}><Time at={r.changed.time} relative /></a> : <span class="quiet">–</span>}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}

function Pager({ offset, found }: { offset: number; found: number }) {
  if (found <= pageSize) return null
  const to = (n: number) => () => amend({ from: n > 0 ? String(n) : undefined })
  return (
    <div class="actions">
      <button type="button" disabled={offset === 0} onClick={to(offset - pageSize)}>Previous</button>
      <span>{count(offset + 1)} to {count(Math.min(offset + pageSize, found))} of {count(found)}</span>
      <button type="button" disabled={offset + pageSize >= found} onClick={to(offset + pageSize)}>Next</button>
    </div>
  )
}

function Version({ of, newest }: { of: number; newest: Schemas['Version'] | undefined }) {
  if (of === 0) return <>The built-in rules. A change publishes the first version.</>
  return (
    <>
      <a href={href(['versions', String(of)])}>Version {of}</a>
      {newest?.time && <> of <Time at={newest.time} /></>}{newest?.author && ` by ${newest.author}`}{newest?.comment && <>: <Long text={newest.comment} /></>}
    </>
  )
}

function Mode({ of }: { of: Rule }) {
  return <Badge kind={of.mode === 'enforce' ? 'good' : of.mode === 'shadow' ? 'warn' : 'plain'}>{of.mode}</Badge>
}

function conditionsOf(r: Rule): string {
  return r.when.map((c) => `${c.name} ${c.want}`).join(', ') || 'every request'
}

function limitsOf(r: Rule): string {
  return r.limits.map(({ tier, words }) => (tier ? `${tier}: ` : '') + words).join('; ')
}

// Drafts lists what the user has written and not published.
function Drafts() {
  const admin = may('admin', useStore(identity))
  const list = drafts()
  if (list.length === 0) return null
  const link = (draft: string) => {
    const [, fresh, kind, id] = /^(new )?(rule|tier) (.*)$/.exec(draft) ?? []
    if (draft === 'set' && !admin) return href(['replay'], { rules: 'draft' })
    return id === undefined ? href(['rules', '*', 'edit']) : href([`${kind}s`, id, fresh ? 'new' : 'edit'])
  }
  return <p class="box" role="status">Drafts that are not published: {list.map((d, i) => <span key={d}>{i > 0 && ', '}<a href={link(d)}>{d === 'set' ? 'all rules' : d}</a></span>)}</p>
}

function OneRule({ id }: { id: string }) {
  const writes = may('operator', useStore(identity))
  const words = useLoad(async (signal) => (await call('get', '/v1/rules', { query: { rule: id }, signal })).data.rules[0] ?? null, [id], 5)
  const exists = words.data !== null
  return (
    <Page title={id} lead={<a href={href(['rules'])}>All rules</a>}
      actions={writes && exists && <>
        <a class="button" href={href(['rules', id, 'edit'])}>Edit…</a>
        <a class="button" href={href(['rules', id, 'delete'])}>Delete…</a>
      </>}>
      <Await of={words} what="The rule in words was not loaded">
        {(one) => (one ? <InWords of={one} /> : <Empty>The rules in force have no rule “{id}”. {writes && <a href={href(['rules', id, 'new'])}>Write it…</a>}</Empty>)}
      </Await>
      {(words.data || words.error) && <InForce id={id} />}
      {(words.data !== undefined || words.error) && <Panel title="History" note="the versions that changed the text of this rule"><History rule={id} exists={exists} /></Panel>}
    </Page>
  )
}

function InWords({ of }: { of: Rule }) {
  return (
    <>
      <Results of={of} />
      <dl class="facts">
        <dt>Matches</dt><dd>{conditionsOf(of)}</dd>
        <dt>Limit</dt><dd>{limitsOf(of)}</dd>
        <dt>Mode</dt><dd><Mode of={of} /></dd>
        <dt>Counts by</dt><dd>{of.by.join(', ') || 'nothing: all callers together'}</dd>
        <dt>Overrides</dt><dd>{count(of.overrides ?? 0)}</dd>
        <dt>Changed</dt><dd>{of.changed ? <><Time at={of.changed.time} relative /> by {of.changed.author || 'an edited file'} in <a href={href(['versions', String(of.changed.version)])}>version {of.changed.version}</a></> : 'not known: in an old version'}</dd>
      </dl>
    </>
  )
}

// InForce has what the node knows of a rule that exists.
function InForce({ id }: { id: string }) {
  const by = (useRoute().query.get('by') ?? 'denied') as 'denied' | 'allowed' | 'shadow'
  const rule = useLoad(async (signal) => (await callText('get', '/rules/{id}/', { path: { id }, accept: 'application/yaml', signal })).data, [id])
  return (
    <>
      <LastMinutes rule={id} />
      <Panel title="Text">
        <Await of={rule} what="The rule was not loaded">{(text) => <pre class="text" tabIndex={0} role="region" aria-label="Text of the rule">{text}</pre>}</Await>
      </Panel>
      <Panel title="Keys that it hits most" note="this node, last hour"
        actions={<Choice label="Which requests" of={[['denied', 'Denied'], ['allowed', 'Allowed'], ['shadow', 'Shadow']]} value={by} choose={(v) => amend({ by: v })} />}>
        <TopKeys by={by} window="1h" rule={id} limit={20} />
      </Panel>
    </>
  )
}

// Results shows what the rule denies beside what it would deny if it were enforced.
function Results({ of }: { of: Rule }) {
  const { mode, rates: r } = of
  return (
    <div class="tiles">
      <Tile label="requests" value={rate(requestsOf(r))} note="mean of the last minute" />
      <Tile label="denied" value={share(deniedShare(r))} note={mode === 'enforce' ? rate(r.denied) : mode === 'off' ? 'the rule is off' : 'shadow mode denies nothing'} kind={r.denied > 0 ? 'warn' : ''} />
      <Tile label="denied if it were enforced" value={mode === 'shadow' ? share(shadowShare(r)) : mode === 'enforce' ? share(deniedShare(r)) : '–'}
        note={mode === 'shadow' ? rate(r.shadow) : mode === 'enforce' ? 'it is enforced' : 'an off rule counts nothing'} kind={mode === 'shadow' && r.shadow > 0 ? 'warn' : ''} />
      <Tile label="degraded" value={share(r.degraded / (requestsOf(r) || 1))} note={rate(r.degraded)} kind={r.degraded > 0 ? 'bad' : ''} />
    </div>
  )
}

function LastMinutes({ rule }: { rule: string }) {
  const { seconds } = useLive()
  return <Panel title="Last 15 minutes" note="this node"><SecondsChart seconds={seconds} rule={rule} /></Panel>
}

type Changed = Schemas['HistoryVersion']

function History({ rule, exists }: { rule: string; exists: boolean }) {
  const history = useLoad(async (signal) => (await call('get', '/rules/history', { query: { rule, n: 100 }, signal })).data, [rule], 10)
  const columns = [
    { title: 'Version', value: (v: Changed) => v.version, show: (v: Changed) => <a href={href(['versions', String(v.version)])}>{v.version}</a> },
    { title: 'Time', value: (v: Changed) => v.time ?? '', show: (v: Changed) => <Time at={v.time} /> },
    { title: 'The rule was', value: (v: Changed) => v.change ?? '' },
    { title: 'Who', value: (v: Changed) => v.author ?? '' },
    { title: 'Reason', wide: true, value: (v: Changed) => v.comment ?? '', show: (v: Changed) => <Long text={v.comment ?? ''} /> },
    { title: '', value: () => '', show: (v: Changed) => <a class="button" href={href(['versions'], { from: String(v.previous), to: v.version })} aria-label={`Changes of version ${v.version}`}>Changes</a> },
  ]
  return (
    <Await of={history} what="The history was not loaded">
      {({ current, versions, looked_back_to: back = 0 }) => (
        <>
          <Table name="history" caption="Versions that changed the rule" rows={versions} columns={columns} keyOf={(v) => String(v.version)}
            empty={current === 0 || !back ? (exists ? 'The rule is built in: no version has changed it.' : 'No version that is kept has had this rule.') : back > current ? 'The versions are not compared yet.' : `No version from ${back} on has changed the rule.`} />
          {back > 0 && back <= current && <p class="quiet">Versions before {back} are not compared yet, or are not kept whole.</p>}
        </>
      )}
    </Await>
  )
}

function NewRule() {
  const [id, setId] = useState('')
  const submit = (e: Event) => {
    e.preventDefault()
    go(['rules', id, 'new'])
  }
  return (
    <Page title="New rule">
      <form class="narrow" onSubmit={submit}>
        <Field label="Id" hint="Letters, digits, and . : _ - up to 64 characters. It is in metrics, logs and answers.">
          <input name="id" value={id} required pattern="[A-Za-z0-9_.:\-]{1,64}" autocomplete="off" spellcheck={false} onInput={(e) => setId(e.currentTarget.value)} />
        </Field>
        <div class="actions"><button type="submit" class="primary">Write it…</button> <a class="button" href={href(['rules'])}>Close</a></div>
      </form>
    </Page>
  )
}

function DeleteRule({ id }: { id: string }) {
  const [reason, setReason] = useState('')
  const rule = useLoad((signal) => callText('get', '/rules/{id}/', { path: { id }, accept: 'application/yaml', signal }), [id])
  return (
    <Page title={`Delete rule ${id}`} lead="Nothing is deleted until you confirm.">
      <Await of={rule} what="The rule was not loaded">
        {({ etag }) => (
          <Change canary verb={`Delete rule ${id}`} reason={reason} setReason={setReason}
            send={({ signal, reason: why, ...query }) => call('delete', '/rules/{id}', { path: { id }, query, ifMatch: etag, reason: why ?? '', signal })}
            done={(o) => go([o.canary ? 'canary' : 'rules'])} cancel={() => go(['rules', id])} />
        )}
      </Await>
    </Page>
  )
}
