import type { ComponentChildren } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { href } from '../router'
import { identity, may, type Role } from '../session'
import { useStore } from '../store'
import { Empty, Page } from './basic'

// For shows a page that writes to the roles that may. A link leads others here too: they see what
// the page needs, and no control. A user who signs in again with a lesser role keeps what was
// written: the page is hidden until the role suffices.
export function For({ role, title, back, children }: { role: Role; title: string; back: string[]; children: ComponentChildren }) {
  const who = useStore(identity)
  const permitted = may(role, who)
  const [opened, setOpened] = useState(permitted)
  useEffect(() => { if (permitted) setOpened(true) }, [permitted])
  return (
    <>
      {!permitted && (
        <Page title={title}>
          <Empty>This page needs the role {role}, and {who?.name} has the role {who?.role}. Ask somebody with that role, or sign in with another token. <a href={href(back)}>Back</a></Empty>
        </Page>
      )}
      {(permitted || opened) && <div hidden={!permitted}>{children}</div>}
    </>
  )
}
