# A Rails application with jobs that note in the file WEIR_E2E_NOTES what they do.
require "rails"
require "active_job/railtie"
require "activejob-weir"

class App < Rails::Application
  config.eager_load = false
  # Otherwise Rails writes one to the current folder.
  config.secret_key_base = "e2e"
  config.logger = Logger.new(IO::NULL)
  config.active_job.queue_adapter = :weir
end
App.initialize!

def note(text)
  File.open(ENV.fetch("WEIR_E2E_NOTES"), "a") { |file| file.syswrite("#{text}\n") }
end

class Greet < ActiveJob::Base
  def perform(name, at:, tags: [])
    note("greet #{name} #{at.class} #{tags.inspect}")
  end
end

class Mail < ActiveJob::Base
  queue_as :mailers
  self.weir_options = { retry: -1 }

  def perform(text)
    raise ArgumentError, "no address: #{text}"
  end
end

class Flaky < ActiveJob::Base
  retry_on(RuntimeError, wait: 0, attempts: 3)

  def perform
    note("attempt #{executions}")
    raise "attempt #{executions}" if executions < 3
  end
end

# Runs until the file exists.
class Hold < ActiveJob::Base
  def perform(path)
    note("hold #{Process.pid}")
    sleep 0.01 until File.exist?(path)
    note("done #{Process.pid}")
  end
end

class Crowded < ActiveJob::Base
  queue_as :full

  def perform; end
end

class Mistaken < ActiveJob::Base
  self.weir_options = { retries: 3 }

  def perform; end
end
