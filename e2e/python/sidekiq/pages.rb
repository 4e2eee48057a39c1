# Prints as JSON what Sidekiq's API classes and its pages show: pages.rb [ACTION], where ACTION is "quiet"
# or "stop": the button of the first process on the page Busy.
require_relative "jobs"
require "sidekiq/api"
require "sidekiq/web"
require "rack/mock"

SESSION = {}

def request(method, path, **options)
  reply = Rack::MockRequest.new(Sidekiq::Web).request(method, path, { "rack.session" => SESSION, **options })
  abort "#{method} #{path}: #{reply.status}\n#{reply.body}" unless reply.status < 400
  reply.body
end

def press(button)
  page = request("GET", "/busy")
  identity = Sidekiq::ProcessSet.new.first.identity
  form = page[/<form.*?#{Regexp.escape(identity)}.*?<\/form>/m] or abort "no buttons for #{identity}\n#{page}"
  token = form[/name=['"]authenticity_token['"] value=['"](.*?)['"]/, 1]
  request("POST", "/busy", params: { "authenticity_token" => token, "identity" => identity, button => "1" })
end

press(ARGV[0]) if ARGV[0]
pages = %w[/ /busy /queues /queues/mail /retries /scheduled /morgue /stats].to_h { |path| [path, request("GET", path)] }
stats = Sidekiq::Stats.new
puts JSON.generate(
  pages: pages,
  queues: Sidekiq::Queue.all.map { |queue| [queue.name, queue.size] },
  waiting: Sidekiq::Queue.new("mail").map { |job| [job.jid, job.klass] },
  retries: Sidekiq::RetrySet.new.map { |job| [job.jid, job["error_message"]] },
  scheduled: Sidekiq::ScheduledSet.new.map(&:jid),
  dead: Sidekiq::DeadSet.new.map { |job| [job.jid, job["error_class"]] },
  processes: Sidekiq::ProcessSet.new.map { |it| [it["hostname"], it["queues"], it["busy"], it["quiet"].to_s, it.labels] },
  # Sidekiq 7 leaves the payload as text.
  work: Sidekiq::Workers.new.map do |_, _, work|
    payload = work["payload"]
    payload = JSON.parse(payload) if payload.is_a?(String)
    [work["queue"], payload["jid"]]
  end,
  stats: [stats.processed, stats.failed, stats.enqueued, stats.retry_size, stats.dead_size, stats.processes_size]
)
