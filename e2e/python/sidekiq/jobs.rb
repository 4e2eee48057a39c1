# Jobs for real Sidekiq processes. Each writes whole lines to JOBS_LOG: what began, what is done.
require "sidekiq"
require "json"

redis = { path: ENV.fetch("REDIS_PATH") }
Sidekiq.configure_client { |config| config.redis = redis }
Sidekiq.configure_server do |config|
  config.redis = redis
  config.average_scheduled_poll_interval = 1
end

module Log
  FILE = File.open(ENV.fetch("JOBS_LOG"), File::WRONLY | File::APPEND | File::CREAT)
  FILE.sync = true

  def self.write(word, jid, detail = "")
    FILE.syswrite("#{word} #{jid} sidekiq-#{Process.pid} - #{Process.clock_gettime(Process::CLOCK_MONOTONIC)} #{detail}\n")
  end
end

class Echo
  include Sidekiq::Worker
  sidekiq_options queue: "ruby"

  def perform(*args)
    Log.write("start", jid)
    Log.write("done", jid, JSON.generate(args))
  end
end

# Fails until it was retried.
class FailsInRuby
  include Sidekiq::Worker

  def perform(*args)
    Log.write("failing", jid)
    raise ArgumentError, "not in Ruby: \u00fc"
  end
end

class Slow
  include Sidekiq::Worker

  def perform(seconds)
    Log.write("start", jid)
    sleep seconds
    Log.write("done", jid)
  end
end
