// A canary: new rules for a share of the callers, compared with the others.
import { useState } from 'preact/hooks'
import { call } from '../api'
import { attribute, count, many, milliseconds, share } from '../format'
import { useLoad } from '../load'
import { Await, Badge, Empty, Long, Page, Panel, Time } from '../parts/basic'
import { decided, deniedShare, running, useCanary, type Counts, type Running } from '../parts/canary'
import { Confirm } from '../parts/confirm'
import { DiffText } from '../parts/effects'
import { Table } from '../parts/table'
import { href } from '../router'
import { identity, may } from '../session'
import { useStore } from '../store'

export function Canary() {
  const state = useCanary()
  const admin = may('admin', useStore(identity))
  const [said, say] = useState('')
  const done = (what: string) => {
    say(what)
    state.reload()
  }
  return (
    <Page title="Canary" lead="New rules for a share of the callers. It ends by itself when they deny much more, or have more errors.">
      {said && <p class="box good" role="status">{said}</p>}
      <Await of={state} what="The canary was not loaded">
        {(data) => {
          const on = running(data)
          if (on) return <OneCanary key={on.version} of={on} done={done} />
          return <Empty>No canary is on. {admin ? <>To try a change on some callers first, choose that in the review of the change: of <a href={href(['rules'])}>a rule</a>, of <a href={href(['tiers'])}>a tier</a>, or of <a href={href(['rules', '*', 'edit'])}>all rules</a>.</> : 'An admin starts one in the review of a change.'}</Empty>
        }}
      </Await>
    </Page>
  )
}

function OneCanary({ of, done }: { of: Running; done: (said: string) => void }) {
  const who = useStore(identity)
  const [ending, end] = useState<'promote' | 'abort'>()
  const change = useLoad(async (signal) => (await call('get', '/rules/diff', { query: { from: of.control, to: of.version }, signal })).data, [of.control, of.version])
  return (
    <>
      <Comparison of={of} />
      {ending && <End of={of} how={ending} done={done} cancel={() => end(undefined)} />}
      {!ending && (
        <div class="actions">
          {may('admin', who) && <button type="button" class="primary" onClick={() => end('promote')}>Promote…</button>}
          {may('operator', who) && <button type="button" class="danger" onClick={() => end('abort')}>Abort…</button>}
        </div>
      )}
      <dl class="facts">
        <dt>New rules</dt><dd><a href={href(['versions', String(of.version)])}>version {of.version}</a> for {share(of.share)} of the callers, told apart by {of.by === 'ip' ? 'address' : 'API key, or by address without one'}</dd>
        <dt>Old rules</dt><dd><a href={href(['versions', String(of.control)])}>version {of.control}</a> for the others</dd>
        <dt>Since</dt><dd><Time at={of.since} />{of.author && ` by ${of.author}`}{of.comment && <>: <Long text={of.comment} /></>}</dd>
        <dt>Promoted</dt><dd>{of.soak ? <>by itself at <Time at={new Date(Date.parse(of.since) + milliseconds(of.soak)).toISOString()} /> at the earliest, once each side has had {many(of.least_requests, 'request')}</> : 'by an admin alone'}</dd>
        <dt>Aborted</dt><dd>by itself when the denied share under the new rules is more than {share(of.abort_above)} higher, or when they have more errors, once each side has had {many(of.least_requests, 'request')}</dd>
        <dt>Not tried</dt><dd>{of.rules_kept?.length ? `the limits of ${of.rules_kept.join(', ')}: callers of both sides share their counts, so they stay as they are until the promotion` : 'nothing'}</dd>
      </dl>
      <Panel title="Change">
        <Await of={change} what="The versions were not compared">{(d) => <DiffText text={d.text} />}</Await>
      </Panel>
    </>
  )
}

interface Side {
  name: string
  counts: Counts
}

function Comparison({ of }: { of: Running }) {
  const { control, canary } = of.requests
  const more = deniedShare(canary) - deniedShare(control)
  const sides: Side[] = [{ name: 'new rules', counts: canary }, { name: 'old rules', counts: control }]
  const columns = [
    { title: 'Callers with the', value: (s: Side) => s.name },
    { title: 'Requests', value: (s: Side) => s.counts.requests, show: (s: Side) => <>{count(s.counts.requests)} <meter min={0} max={of.least_requests} value={s.counts.requests} aria-label={`${s.name}: ${s.counts.requests} of the ${of.least_requests} requests that a decision needs`} /></> },
    { title: 'Denied', value: (s: Side) => s.counts.denied, show: (s: Side) => count(s.counts.denied) },
    { title: 'Denied share', unit: '%', value: (s: Side) => 100 * deniedShare(s.counts), show: (s: Side) => share(deniedShare(s.counts)) },
    { title: 'Error share', unit: '%', value: (s: Side) => 100 * errorShare(s.counts), show: (s: Side) => share(errorShare(s.counts)) },
  ]
  return (
    <Panel title="Comparison" note={`counted by ${many(of.nodes, 'node')}, every 5 seconds`}>
      <Table name="sides" caption="Requests under the new and the old rules" rows={sides} columns={columns} keyOf={(s) => s.name} empty="" />
      <p>
        The denied share under the new rules is {more === 0 ? 'that under the old ones' : `${share(Math.abs(more))} ${more < 0 ? 'lower' : 'higher'}`}. <Badge kind={more > of.abort_above ? 'bad' : 'good'}>{more > of.abort_above ? 'above' : 'within'} the bound of {share(of.abort_above)}</Badge>
        {' '}{Math.min(decided(control), decided(canary)) < of.least_requests && <span class="quiet">One side has had fewer than {many(of.least_requests, 'request')}, so nothing is decided yet.</span>}
      </p>
    </Panel>
  )
}

function errorShare(c: Counts): number {
  return c.errors / (c.requests || 1)
}

function End({ of, how, done, cancel }: { of: Running; how: 'promote' | 'abort'; done: (said: string) => void; cancel: () => void }) {
  const query = { version: of.version }
  if (how === 'abort') {
    const act = async (reason: string) => {
      const { data } = await call('post', '/v1/canary/abort', { query, reason })
      done(`The canary was aborted: version ${data.version} has the old rules for all callers.`)
    }
    return (
      <Confirm title="Abort the canary" verb="Abort the canary" danger failed="The canary goes on" act={act} cancel={cancel}>
        <p>A new version with the old rules (version {of.control}) is published. The {share(of.share)} of the callers that have the new rules get the old ones within two seconds. The new rules stay in the versions.</p>
      </Confirm>
    )
  }
  const act = async (reason: string) => {
    const { data } = await call('post', '/v1/canary/promote', { query, reason })
    done(`The canary was promoted: version ${data.version} has the new rules for all callers.`)
  }
  return (
    <Confirm title="Promote the canary" verb="Promote the canary" failed="The canary goes on" act={act} cancel={cancel}>
      <p>A new version with the new rules (version {of.version}) is published for all callers. The other {share(1 - of.share)} of the callers, told apart by {attribute(of.by)}, get them within two seconds.{of.rules_kept?.length ? ` So do the limits that were not tried: ${of.rules_kept.join(', ')}.` : ''}</p>
    </Confirm>
  )
}
