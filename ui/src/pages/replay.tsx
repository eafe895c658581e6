// A replay of recorded traffic by the rules in force and by a draft. It touches no live key.
import { useEffect, useMemo, useRef, useState } from 'preact/hooks'
import { call, callStream, type Schemas } from '../api'
import { readDraft, type File as RuleFile } from '../draft'
import { YamlEditor } from '../editor/editor'
import { events } from '../events'
import { bytes, count, many, share } from '../format'
import { useLoad } from '../load'
import { Await, Choice, Empty, Failure, Field, Page, Panel, Save, Tile } from '../parts/basic'
import { Chart } from '../parts/chart'
import { Table } from '../parts/table'
import { identity, may } from '../session'
import { useStore } from '../store'

type Progress = Schemas['ReplayProgress']
type Result = Schemas['ReplayReport']
type Report = Schemas['Replay']
type Comparison = Schemas['ReplayComparison']

interface Run {
  state: 'idle' | 'runs' | 'ended'
  progress?: Progress
  result?: Result
  error?: Error
}

export function Replay() {
  const who = useStore(identity)
  const [run, setRun] = useState<Run>({ state: 'idle' })
  const abort = useRef<AbortController>(null)
  useEffect(() => () => abort.current?.abort(), [])
  const start = (form: FormData) => {
    abort.current = new AbortController()
    const { signal } = abort.current
    setRun({ state: 'runs' })
    replay(form, signal, (part) => setRun((old) => ({ ...old, ...part }))).then(
      () => setRun((old) => ({ ...old, state: 'ended', ...(old.result ? {} : { error: new Error('the server ended the replay without a report') }) })),
      (error: Error) => setRun(signal.aborted ? { state: 'idle' } : { state: 'ended', error }),
    )
  }
  if (!may('operator', who)) return <Page title="Replay"><Empty>A replay needs the role operator: it takes memory and processors of the node.</Empty></Page>
  return (
    <Page title="Replay" lead="What the rules in force, and a draft, would have done to recorded traffic. A replay has counters of its own and touches no live key.">
      <Setup busy={run.state === 'runs'} start={start} />
      {run.state === 'runs' && <Running of={run.progress} cancel={() => abort.current?.abort()} />}
      {run.error && <Failure what="The replay has no report" error={run.error} />}
      {run.result && <Outcome of={run.result} />}
    </Page>
  )
}

async function replay(form: FormData, signal: AbortSignal, tell: (part: Partial<Run>) => void): Promise<void> {
  const response = await callStream('post', '/v1/replay', { body: form, accept: 'text/event-stream', signal })
  for await (const batch of events(response.body!)) {
    for (const event of batch) {
      if (event.name === 'progress') tell({ progress: JSON.parse(event.data) as Progress })
      if (event.name === 'report') tell({ result: JSON.parse(event.data) as Result })
    }
  }
}

type Source = 'upload' | 'decision_log'

function Setup({ busy, start }: { busy: boolean; start: (form: FormData) => void }) {
  const who = useStore(identity)
  const [source, setSource] = useState<Source>('upload')
  const [with_, setWith] = useState<'alone' | 'draft'>('alone')
  const [draft, setDraft] = useState<RuleFile[]>([])
  const [range, setRange] = useState({ since: '', until: '' })
  const recording = useRef<HTMLInputElement>(null)
  const submit = (e: Event) => {
    e.preventDefault()
    const form = new FormData()
    if (with_ === 'draft') form.append('draft', JSON.stringify({ files: draft }))
    for (const name of ['since', 'until'] as const) if (range[name]) form.append(name, range[name])
    const file = recording.current?.files?.[0]
    if (source === 'decision_log') form.append('source', 'decision_log')
    else if (file) form.append('log', file) // the last part
    start(form)
  }
  const field = (name: 'since' | 'until') => ({ name, value: range[name], autocomplete: 'off', onInput: (e: Event) => setRange({ ...range, [name]: (e.currentTarget as HTMLInputElement).value }) })
  return (
    <Panel title="Traffic and rules">
      <form onSubmit={submit}>
        <div class="row">
          {who?.features.includes('decision_log') && (
            <Field label="Traffic"><select value={source} onChange={(e) => setSource(e.currentTarget.value as Source)}>
              <option value="upload">A file of this computer</option>
              <option value="decision_log">The decision log of this node</option>
            </select></Field>
          )}
          {source === 'upload' && <Field label="Recording" hint="A decision log or an access log, also compressed by gzip, of at most 256 MiB."><input ref={recording} type="file" required /></Field>}
          <Field label="Since" hint="Such as 2h, or a time. Empty: all."><input {...field('since')} /></Field>
          <Field label="Until" hint="Such as 1h, or a time."><input {...field('until')} /></Field>
        </div>
        <Choice label="Rules" of={[['alone', 'Rules in force alone'], ['draft', 'Compare with a draft']]} value={with_} choose={setWith} />
        {with_ === 'draft' && <DraftRules files={draft} change={setDraft} />}
        <div class="actions"><button type="submit" class="primary" disabled={busy}>Start the replay</button></div>
      </form>
    </Panel>
  )
}

// DraftRules begins with the draft of the editor of all rules, or with the rules in force.
function DraftRules({ files, change }: { files: RuleFile[]; change: (files: RuleFile[]) => void }) {
  const [shown, setShown] = useState('')
  const start = useLoad(async (signal) => {
    const begin = files.length > 0 ? files : readDraft('set')?.files ?? (await call('get', '/rules', { signal })).data.files
    change(begin)
    return begin
  }, [])
  return (
    <Await of={start} what="The rules in force were not loaded">
      {(begin) => {
        const file = (files.length > 0 ? files : begin).find((f) => f.name === shown) ?? (files[0] ?? begin[0])
        if (!file) return <Empty>There are no rules to change.</Empty>
        return (
          <>
            {begin.length > 1 && <Choice label="File" of={begin.map((f) => [f.name, f.name] as const)} value={file.name} choose={setShown} />}
            <YamlEditor document={file.name} label={`Draft: ${file.name}`} text={file.text} problems={[]}
              changed={(text) => change((files.length > 0 ? files : begin).map((f) => (f.name === file.name ? { ...f, text } : f)))} />
          </>
        )
      }}
    </Await>
  )
}

function Running({ of, cancel }: { of: Progress | undefined; cancel: () => void }) {
  return (
    <Panel title="The replay runs" actions={<button type="button" onClick={cancel}>Cancel</button>}>
      <progress aria-label="Progress of the replay" {...(of?.size ? { max: of.size, value: Math.min(of.bytes, of.size) } : {})} />
      <p role="status">{of ? `${many(of.events, 'event')}, ${bytes(of.bytes)}${of.size ? ` of ${bytes(of.size)}` : ''}` : 'The recording is sent…'}</p>
    </Panel>
  )
}

const bounds = { events: 'a million events', keys: 'too many keys', bytes: '256 MiB of input', time: 'a minute', input: 'an unreadable place of the input' }

function Outcome({ of }: { of: Result }) {
  const r = of.report
  const after = r.compare
  return (
    <>
      {!of.complete && <p class="box warn" role="status"><strong>The report covers a part of the traffic:</strong> the replay ended at {of.stopped ? bounds[of.stopped] : 'a bound'}.{of.problem && ` ${of.problem}`}</p>}
      {!!of.penalties?.length && <p class="box">A replay counts no penalties, so live these rules deny more: {of.penalties.join(', ')}.</p>}
      <Panel title="Result" actions={<Save label="Save the report" name="stint-replay.json" type="application/json" text={async () => JSON.stringify(of.report, null, 2)} />}>
        <Summary of={r} />
        <OverTime of={r} />
      </Panel>
      <Panel title="Rules" note={of.rules_left_out ? `without ${many(of.rules_left_out, 'rule')}` : ''}>
        <Rules of={r} />
      </Panel>
      {after && (
        <div class="columns">
          <Panel title="Denied by the draft alone" note={many(after.callers_newly_denied, 'caller')}><Callers name="denied" list={after.top_newly_denied} /></Panel>
          <Panel title="Allowed by the draft alone" note={many(after.callers_newly_allowed, 'caller')}><Callers name="allowed" list={after.top_newly_allowed} /></Panel>
        </div>
      )}
      {r.unreadable > 0 && <p class="quiet">{many(r.unreadable, 'line')} could not be read. The first: {r.unreadable_lines.slice(0, 3).map((l) => `line ${l.line}: ${l.reason}`).join('; ')}</p>}
    </>
  )
}

function Summary({ of }: { of: Report }) {
  return (
    <div class="tiles">
      <Tile label="events" value={count(of.events)} note={`of ${many(of.callers, 'caller')}`} />
      <Tile label="denied by the rules in force" value={share(of.share_denied)} note={count(of.denied)} />
      {of.compare && <Tile label="denied by the draft" value={share(of.compare.share_denied)} note={count(of.compare.denied)} />}
      {of.compare && <Tile label="denied anew" value={count(of.compare.newly_denied)} note={`of ${many(of.compare.callers_newly_denied, 'caller')}`} />}
      {of.compare && <Tile label="allowed anew" value={count(of.compare.newly_allowed)} note={`of ${many(of.compare.callers_newly_allowed, 'caller')}`} />}
    </div>
  )
}

function OverTime({ of, rule }: { of: Report; rule?: string }) {
  const { times, series } = useMemo(() => {
    const step = of.over_time.step_us / 1e6 || 1
    const perSecond = (list: number[]) => list.map((n) => n / step)
    const before = of.per_rule.find((r) => r.rule === rule)
    const after = of.compare?.per_rule.find((r) => r.rule === rule)
    return {
      times: of.over_time.events.map((_, i) => of.over_time.start_us / 1e6 + i * step),
      series: [
        { title: 'events', colour: 'quiet', values: perSecond(before?.events_over_time ?? (rule ? of.over_time.events.map(() => 0) : of.over_time.events)) },
        { title: 'denied by the rules in force', colour: 'series-degraded', values: perSecond(rule ? before?.denied_over_time ?? after?.denied_before_over_time ?? [] : of.over_time.denied) },
        ...(of.compare ? [{ title: 'denied by the draft', colour: 'series-denied', values: perSecond(rule ? after?.denied_after_over_time ?? [] : of.compare.denied_over_time) }] : []),
      ],
    }
  }, [of, rule])
  return <Chart label={`Events a second${rule ? ` of rule ${rule}` : ''}`} unit="a second" times={times} series={series} />
}

interface RuleRow {
  rule: string
  events: number
  before: number
  after: number
}

function Rules({ of }: { of: Report }) {
  const [shown, show] = useState('')
  const changes = new Map((of.compare?.per_rule ?? []).map((r) => [r.rule, r] as const))
  const rows: RuleRow[] = of.per_rule.map((r) => ({ rule: r.rule, events: r.events, before: r.denied, after: changes.get(r.rule)?.denied_after ?? r.denied }))
  for (const [rule, r] of changes) if (!rows.some((row) => row.rule === rule)) rows.push({ rule, events: 0, before: r.denied_before, after: r.denied_after })
  const columns = [
    { title: 'Rule', value: (r: RuleRow) => r.rule },
    { title: 'Events', value: (r: RuleRow) => r.events, show: (r: RuleRow) => count(r.events) },
    { title: 'Denied now', value: (r: RuleRow) => r.before, show: (r: RuleRow) => count(r.before) },
    ...(of.compare ? [
      { title: 'Denied by the draft', value: (r: RuleRow) => r.after, show: (r: RuleRow) => count(r.after) },
      { title: 'Difference', value: (r: RuleRow) => r.after - r.before, show: (r: RuleRow) => <Difference of={r.after - r.before} /> },
    ] : []),
    { title: '', value: () => '', show: (r: RuleRow) => <button type="button" class="quiet" aria-label={`Chart of ${r.rule}`} onClick={() => show(r.rule)}>Chart</button> },
  ]
  return (
    <>
      {shown && <><h2 class="minor">{shown}</h2><OverTime of={of} rule={shown} /></>}
      <Table name="replayed" caption="Denials of the rules" rows={rows} columns={columns} keyOf={(r) => r.rule} empty="No rule counted an event." />
    </>
  )
}

function Difference({ of }: { of: number }) {
  if (of === 0) return <span class="quiet">0</span>
  return of > 0 ? <del class="more">+{count(of)}</del> : <ins>−{count(-of)}</ins>
}

function Callers({ name, list }: { name: string; list: Comparison['top_newly_denied'] }) {
  type Caller = (typeof list)[number]
  const columns = [
    { title: 'Caller', value: (c: Caller) => c.caller, show: (c: Caller) => <code>{c.caller}</code> },
    { title: 'Requests', value: (c: Caller) => c.requests, show: (c: Caller) => count(c.requests) },
    { title: 'Changed', value: (c: Caller) => c.changed, show: (c: Caller) => count(c.changed) },
  ]
  return <Table name={name} caption={`Callers ${name} by the draft alone`} rows={list} columns={columns} keyOf={(c) => `${c.caller} ${c.requests} ${c.changed}`} empty="No caller." />
}
