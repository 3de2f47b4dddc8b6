import 'uplot/dist/uPlot.min.css';
import { ListMembersRequest, QueueStats, WhoAmIRequest } from '@taskmaster/proto/messages';
import { render } from 'preact';

render(
  <p>
    {String(QueueStats.decode(new Uint8Array()).queue)}
    {ListMembersRequest.encode({}).finish().length}
    {WhoAmIRequest.encode({ principal: '', questions: [] }).finish().length}
  </p>,
  document.body,
);
