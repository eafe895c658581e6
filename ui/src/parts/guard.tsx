import { Component, type ComponentChildren } from 'preact'
import { Failure, Page } from './basic'

// Guard shows a page. If the page fails, for example because it does not understand an answer of
// another version of the server, Guard says so: the window would be empty otherwise.
export class Guard extends Component<{ children: ComponentChildren }, { error?: Error }> {
  override state: { error?: Error } = {}

  static override getDerivedStateFromError(error: Error) {
    return { error }
  }

  override render() {
    const { error } = this.state
    if (!error) return this.props.children
    return (
      <Page title="Not shown">
        <Failure what="The page cannot be shown. Versions and Audit say what was changed" error={new Error(`${error.message} (if the server has been updated, reload)`)} retry={() => this.setState({ error: undefined })} />
      </Page>
    )
  }
}
