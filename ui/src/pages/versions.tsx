import { useState } from 'preact/hooks'
import { call, callText, type Schemas } from '../api'
import { useLoad } from '../load'
import { Await, Badge, Long, Page, Panel, Time } from '../parts/basic'
import { Change } from '../parts/change'
import { DiffText } from '../parts/effects'
import { For } from '../parts/role'
import { Table } from '../parts/table'
import { amend, go, href, type Route } from '../router'
import { identity, may } from '../session'
import { useStore } from '../store'

type Version = Schemas['Version']

export function Versions({ route }: { route: Route }) {
  const [number, action] = route.path.slice(1)
  if (number !== undefined && action === 'rollback') return <For role="admin" title={`Roll back to version ${number}`} back={['versions', number]}><Rollback version={Number(number)} /></For>
  if (number !== undefined) return <OneVersion version={Number(number)} />
  return <List route={route} />
}

function List({ route }: { route: Route }) {
  const admin = may('admin', useStore(identity))
  const from = route.query.get('from') ?? ''
  const to = route.query.get('to') ?? ''
  const history = useLoad(async (signal) => (await call('get', '/rules/history', { query: { n: 1000 }, signal })).data, [], 10)
  const pick = (name: 'from' | 'to', chosen: string) => (v: Version) => (
    <input type="radio" name={name} aria-label={`Compare ${name} version ${v.version}`} checked={chosen === String(v.version)} onChange={() => amend({ [name]: String(v.version) })} />
  )
  const columns = (current: number) => [
    { title: 'Version', value: (v: Version) => v.version, show: (v: Version) => <>{v.canary && <><Badge kind="warn">canary</Badge> </>}{v.version === current && <><Badge kind="good">in force</Badge> </>}<a href={href(['versions', String(v.version)])}>{v.version}</a></> },
    { title: 'Time', value: (v: Version) => v.time ?? '', show: (v: Version) => <Time at={v.time} /> },
    { title: 'Who', value: (v: Version) => v.author ?? '' },
    { title: 'Reason', wide: true, value: (v: Version) => v.comment ?? '', show: (v: Version) => <Long text={v.comment ?? ''} /> },
    { title: 'From', control: true, value: () => '', show: pick('from', from) },
    { title: 'To', control: true, value: () => '', show: pick('to', to) },
    ...(admin ? [{ title: '', value: () => '', show: (v: Version) => (v.version === current ? null : <a class="button" href={href(['versions', String(v.version), 'rollback'])} aria-label={`Roll back to version ${v.version}`}>Roll back…</a>) }] : []),
  ]
  return (
    <Page title="Versions" lead="Every published version of the rules, the newest first. Choose two to compare.">
      {from && to && <Comparison from={Number(from)} to={Number(to)} />}
      <Await of={history} what="The history was not loaded">
        {({ current, versions }) => <Table name="versions" caption="Versions" rows={versions} columns={columns(current)} keyOf={(v) => String(v.version)} empty={<>No version has been published: the server runs its built-in rules. <a href={href(['rules'])}>Change a rule</a> to publish the first one.</>} />}
      </Await>
    </Page>
  )
}

function Comparison({ from, to }: { from: number; to: number }) {
  const diff = useLoad(async (signal) => (await call('get', '/rules/diff', { query: { from, to }, signal })).data, [from, to])
  return (
    <Panel title={`From version ${from} to ${to}`} actions={<button type="button" onClick={() => amend({ from: undefined, to: undefined })}>Close</button>}>
      <Await of={diff} what="The versions were not compared">
        {(d) => (
          <>
            <Names title="Rules" of={d.rules} />
            <Names title="Tiers" of={d.tiers} />
            {d.changed ? <DiffText text={d.text} /> : <p class="empty">The versions are the same.</p>}
          </>
        )}
      </Await>
    </Panel>
  )
}

function Names({ title, of }: { title: string; of: Schemas['Names'] }) {
  const parts = (['added', 'removed', 'changed'] as const).filter((kind) => of[kind]?.length)
  if (parts.length === 0) return null
  return <p><strong>{title}</strong> {parts.map((kind) => `${kind}: ${of[kind]!.join(', ')}`).join('; ')}</p>
}

function OneVersion({ version }: { version: number }) {
  const admin = may('admin', useStore(identity))
  const loaded = useLoad(async (signal) => {
    const [whole, history] = await Promise.all([
      call('get', '/rules/versions/{version}', { path: { version }, signal }),
      call('get', '/rules/history', { query: { n: 1 }, signal }),
    ])
    return { ...whole.data, current: history.data.current }
  }, [version])
  return (
    <Page title={`Version ${version}`} lead={<a href={href(['versions'])}>All versions</a>}
      actions={<>
        {loaded.data && loaded.data.current !== version && <a class="button" href={href(['versions'], { from: version, to: loaded.data.current })}>Compare with version {loaded.data.current}</a>}
        {admin && loaded.data && loaded.data.current !== version && <a class="button" href={href(['versions', String(version), 'rollback'])}>Roll back…</a>}
      </>}>
      <Await of={loaded} what={`Version ${version} was not loaded`}>
        {(v) => (
          <>
            <dl class="facts">
              <dt>Time</dt><dd><Time at={v.time} /></dd>
              <dt>Who</dt><dd>{v.author || '–'}</dd>
              <dt>Reason</dt><dd>{v.comment || '–'}</dd>
              <dt>Hash</dt><dd><code>{v.hash.slice(0, 12)}</code></dd>
            </dl>
            {v.files.map((f) => <Panel key={f.name} title={f.name}><pre class="text" tabIndex={0} role="region" aria-label={f.name}>{f.text}</pre></Panel>)}
          </>
        )}
      </Await>
    </Page>
  )
}

function Rollback({ version }: { version: number }) {
  const [reason, setReason] = useState('')
  const [overtaken, setOvertaken] = useState(0) // counts the changes of others since the page was opened
  // The tag of the rules that the effects are shown for.
  const rules = useLoad((signal) => callText('get', '/rules', { accept: 'application/yaml', signal }), [overtaken])
  return (
    <Page title={`Roll back to version ${version}`} lead="The server publishes the rules of that version again, as a new version. Nothing is published until you confirm.">
      {overtaken > 0 && <p class="box warn" role="alert"><strong>Somebody else has published a change meanwhile, so nothing was rolled back.</strong> The effects below are those on the newest rules.</p>}
      <Await of={rules} what="The rules in force were not loaded, and nothing was changed">
        {({ etag }) => (
          <Change key={etag} whole
            verb={`Roll back to version ${version}`} reason={reason} setReason={setReason}
            send={({ signal, reason: why, ...query }) => call('post', '/rules/rollback', { body: { version }, query, ...(query.dry_run ? {} : { ifMatch: etag }), reason: why ?? '', signal })}
            conflict={() => setOvertaken(overtaken + 1)}
            done={(o) => go(['versions', String(o.version)])}
            cancel={() => go(['versions'])}
          />
        )}
      </Await>
    </Page>
  )
}
